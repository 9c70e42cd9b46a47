// GCC (seen in version 12) says that _tile_loadconfig reads 8 bytes, where it reads 64, so the compiler may
// leave out what is written to the rest. llama.cpp then loads a damaged configuration and dies of a
// segmentation fault on CPUs with AMX. Found before the compiler's own header, because
// .cargo/config.toml puts this folder into CPLUS_INCLUDE_PATH.
#include_next <amxtileintrin.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#undef _tile_loadconfig
#define _tile_loadconfig(config) \
    __asm__ volatile("ldtilecfg\t%0" ::"m"(*(const char(*)[64])(config)))
#endif
