// Writes lines, each in one call from several pieces of memory: "lines N [LENGTH]".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

int main(int count, char **arguments) {
    int lines = atoi(arguments[1]);
    int length = count > 2 ? atoi(arguments[2]) : 10;
    char *text = malloc(length);
    memset(text, 'x', length);
    struct iovec pieces[] = {{text, length / 2}, {text + length / 2, length - length / 2}, {"\n", 1}};
    for (int line = 0; line < lines; line++) {
        if (writev(1, pieces, 3) != length + 1) {
            perror("writev");
            return 1;
        }
    }
    return 0;
}
