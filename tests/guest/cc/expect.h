/* For programs that say what is wrong and go on: `wrong` is their exit status. */
#include <stdio.h>

static int wrong;

#define EXPECT(found, wanted)                                                                                          \
    do {                                                                                                               \
        long is = (long)(found), should_be = (long)(wanted);                                                           \
        if (is != should_be) {                                                                                         \
            printf("%s: %ld, and should be %ld\n", #found, is, should_be);                                             \
            wrong = 1;                                                                                                 \
        }                                                                                                              \
    } while (0)
