// cli/provenance.h: where a file comes from: the command line and the time, for those that keep
// them.
#ifndef FG_CLI_PROVENANCE_H
#define FG_CLI_PROVENANCE_H
#include "base/buf.h"

#define FG_CLI_DATE 32

// Appends the line that began this program, as a shell would take it; nothing when the system does
// not tell.
void fg_cli_command_line(struct fg_buf *out);
// "2026-11-30T18:40:57Z" into out; returns out.
char *fg_cli_date(char out[FG_CLI_DATE]);
#endif
