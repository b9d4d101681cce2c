/* The options of `record`. */
#pragma once

#include "app/record_options.h"
#include "base/err.h"
#include "cli/command.h"
#include "collect/env.h"

extern const struct infp_option infp_record_option_table[];

/* 0, or -EINVAL with a sentence. */
int infp_record_options_read(const struct infp_arguments *arguments, struct infp_record_options *ret,
                             struct infp_err *err);

/* --name and --port, of verbs that find running processes. 0, or -EINVAL with a sentence. */
int infp_name_and_port_read(const struct infp_arguments *arguments, struct infp_follow_options *ret,
                            struct infp_err *err);

/* Options of sources, shared by record, snapshot and doctor: they become settings of the environment. */
// clang-format off
#define INFP_SOURCE_OPTIONS                                                                                                          \
        { 0, "pss", NULL, "also record the proportional set size (PSS), which walks each process's memory map", false },                              \
        { 0, "keep-secrets", NULL, "do not mask keys, tokens and passwords in command lines", false },                       \
        { 0, "engine", "URL", "metrics URL of an engine; may be repeated; off: none (default: VLLM_METRICS_URL, http://localhost:8000/metrics, and the target's ports)", true }, \
        { 0, "engine-token", "FILE", "send the first line of this file to engines as bearer token", false },                        \
        { 0, "token-file", "FILE", "the same as --engine-token", false, "engine-token" },                                            \
        { 'H', "header", "LINE", "also send this header to engines (\"Name: value\"); may be repeated", true },                      \
        { 0, "containers", NULL, "record every container of the machine, not only the target's", false },                                  \
        { 0, "gpu-pcie", NULL, "record PCIe traffic of NVIDIA GPUs; each sample then waits 40 ms per GPU", false }
// clang-format on

/* Checks for one line "Name: value". 0, or -EINVAL with a sentence. */
int infp_header_check(const char *line, struct infp_err *err);

/* Fills settings (ended by a NULL name; values borrowed from the arguments). 0, or -EINVAL with a sentence. */
int infp_source_settings(const struct infp_arguments *arguments, struct infp_setting settings[INFP_SOURCE_SETTINGS],
                         struct infp_err *err);
