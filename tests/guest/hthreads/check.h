/* What tests of the library and its adaptor say when something is not so. The includer has <stdio.h>, <string.h> and <unistd.h>. */
#ifndef CHECK_H
#define CHECK_H

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: not true: %s\n", __LINE__, #condition);                                                   \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
/* What a call returns: 0, the number of an error, or another value. */
#define IS(call, wanted)                                                                                               \
    do {                                                                                                               \
        long got = (long)(call);                                                                                       \
        if (got != (long)(wanted)) {                                                                                   \
            printf("line %d: %s is %ld (%s), not %ld\n", __LINE__, #call, got, strerror((int)got), (long)(wanted));    \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
