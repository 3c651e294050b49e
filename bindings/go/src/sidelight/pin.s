// SPDX-License-Identifier: Apache-2.0
// Empty: a package with a file of assembler may declare functions without a body, those of pin.go.
