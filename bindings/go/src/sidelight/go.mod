// SPDX-License-Identifier: Apache-2.0
module sidelight

go 1.19
