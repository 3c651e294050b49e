// SPDX-License-Identifier: Apache-2.0
module sidelight/mirror

go 1.19

require (
	github.com/prometheus/client_golang v1.14.0
	github.com/prometheus/client_model v0.3.0
	sidelight v0.0.0
)

replace sidelight => ../
