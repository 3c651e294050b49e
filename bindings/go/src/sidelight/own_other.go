// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package sidelight

func addOwn(s *site, n uint64) { addPinned(s, n) }
