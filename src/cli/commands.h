/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - summaries, shown by "sidelight --help", of the commands that are separate programs.
 */
#ifndef SL_CLI_COMMANDS_H
#define SL_CLI_COMMANDS_H

#define CLI_SUMMARY_AGENT     "Admit publishers, keep the directory, register memory"
#define CLI_SUMMARY_REPORT    "Send reports to a translator, given as words or lines, or of flows"
#define CLI_SUMMARY_TRANSLATE "Convert reports of network devices into one-sided writes"
#define CLI_SUMMARY_COLLECT   "Read hosts one-sided; serve Prometheus, history and the page"
#define CLI_SUMMARY_GENERATE \
	"Generate load with known totals, and print the values a collector must show"
#define CLI_SUMMARY_REPLAY "Run the pipelines over a recording of sidelight collect"
#define CLI_SUMMARY_MANAGE "Start, stop and test the parts on all hosts, from one file"
#define CLI_SUMMARY_DEMO   "Run everything on this machine until Ctrl-C"

#endif
