// runtime/version.c: what this build is. The build file defines the FORGE_ macros for this file
// alone.
#include "forge/forge.h"

const char *forge_version(void)
{
    return FORGE_VERSION;
}

const char *forge_commit(void)
{
    return FORGE_COMMIT;
}

const char *forge_build_type(void)
{
    return FORGE_BUILD_TYPE;
}

const char *forge_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}
