/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - summaries of commands that are programs of their own, which "sidelight --help"
 * shows. */
#ifndef SL_CLI_COMMANDS_H
#define SL_CLI_COMMANDS_H

#define CLI_SUMMARY_AGENT     "Admit publishers, keep the directory, register memory"
#define CLI_SUMMARY_REPORT    "Send reports to a translator: of flows, or from words and lines"
#define CLI_SUMMARY_TRANSLATE "Turn reports of network devices into one-sided writes"
#define CLI_SUMMARY_COLLECT   "Read hosts one-sided; serve Prometheus, history and the page"
#define CLI_SUMMARY_GENERATE \
	"Make load whose totals are known, and print what a collector must show"
#define CLI_SUMMARY_REPLAY "Run the pipelines over a recording of sidelight collect"
#define CLI_SUMMARY_MANAGE "Start, stop and test the parts on all hosts, from one file"
#define CLI_SUMMARY_DEMO   "Show all of it at work on this machine until Ctrl-C"

#endif
