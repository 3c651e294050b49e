/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - shared by the files of 'sidelight report'. */
#ifndef SL_CLI_REPORT_H
#define SL_CLI_REPORT_H

#include "base/base.h"
#if HAVE_BPF
#include "source/report/reporter.h"
#endif

#if HAVE_BPF
/* Runs until stopped or for the duration (0: no end). Returns an exit code. */
int cli_report_interface(const struct base_command *self, const struct report_kernel_opts *o,
			 uint64_t duration_ns, bool json);
#endif

#endif
