// SPDX-License-Identifier: Apache-2.0
#include "go_asm.h"
#include "textflag.h"

// func addOwn(s *site, n uint64)
TEXT ·addOwn(SB), NOSPLIT, $0-16
	MOVQ	·offsetOfP(SB), BX
	MOVQ	s+0(FP), AX
	TESTQ	BX, BX
	JZ	pin
	MOVQ	TLS, CX
	MOVQ	0(CX)(TLS*1), CX // the goroutine
	MOVQ	0x30(CX), CX // its thread
	MOVQ	(CX)(BX*1), CX
	MOVLQSX	(CX), CX // the number of its P
	MOVQ	site_at(AX), DX
	TESTQ	DX, DX
	JZ	pin
	CMPQ	CX, $const_maxStripes
	JAE	pin
	MOVQ	place_own(DX), BX
	MOVQ	(BX)(CX*8), BX
	TESTQ	BX, BX
	JZ	pin
	MOVQ	n+8(FP), CX
	MOVQ	(place_spot+spot_at)(DX), SI
	ADDQ	CX, (BX)(SI*1)
	IMULQ	(place_spot+spot_k)(DX), CX
	MOVQ	(place_spot+spot_check)(DX), SI
	ADDQ	CX, (BX)(SI*1)
	RET
pin:
	JMP	·addPinned(SB)
