// SPDX-License-Identifier: Apache-2.0

package sidelight

const sysMemfdCreate = 279
