/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - summaries, shown by "sidelight --help", of the commands that are separate programs.
 */
#ifndef SL_CLI_COMMANDS_H
#define SL_CLI_COMMANDS_H

#define CLI_SUMMARY_AGENT     "Run on each host: admit publishers, let collectors read them"
#define CLI_SUMMARY_REPORT    "Send reports or the flows of an interface to a translator"
#define CLI_SUMMARY_TRANSLATE "Convert reports of network devices into one-sided writes"
#define CLI_SUMMARY_COLLECT   "Read hosts one-sided, and serve Prometheus, history and the web page"
#define CLI_SUMMARY_GENERATE \
	"Generate load with known totals, and print the values a collector must show"
#define CLI_SUMMARY_REPLAY "Run the analysis on a recording of sidelight collect"
#define CLI_SUMMARY_MANAGE "Start, stop and test all programs on all hosts listed in one file"
#define CLI_SUMMARY_DEMO   "Run everything on this machine until Ctrl-C"

#endif
