// forge/error.h: the one error type. A call that can fail returns 0 or one of the codes below,
// which are also the program's exit codes (specs: cli 1.4), and describes what happened in the
// caller's struct fg_error.
#ifndef FORGE_ERROR_H
#define FORGE_ERROR_H

enum {
    FG_OK = 0,
    FG_EFAILED = 1,       // the operation failed
    FG_EINPUT = 2,        // usage, or a malformed file, config or environment value
    FG_EINTEGRITY = 3,    // hash, size or identity differs from what was declared
    FG_ENETWORK = 4,      // network or hub failure
    FG_ERESOURCE = 5,     // not enough memory, disk or file handles
    FG_EBUSY = 6,         // lock held, port in use
    FG_EUNSUPPORTED = 7,  // this machine or build cannot do it
    FG_EINTERRUPTED = 130 // stopped by SIGINT after leaving a resumable state
};

// Filled by the failing call. Every string is NUL-terminated, control characters escaped, cut with
// "..." when too long. Empty strings are parts that do not apply.
struct fg_error {
    int code;
    char what[64];      // the subject in a word or two: "safetensors", "config", "tokenizer"
    char file[512];     // path of the file at fault
    char field[192];    // field, tensor, option or byte offset
    char expected[192]; // what would have been right
    char found[256];    // what was there
    char hint[256];     // a next step for the user
};
#endif
