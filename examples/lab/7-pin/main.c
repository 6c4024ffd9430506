/* Three functions of different kinds. Nothing is to be changed here: the list of pins says where they run. */
#include "../lab.h"

#define LENGTH 16384

struct node {
    struct node *next;
    long value[7];
};

MOTET_DATA_ON("riscv64") static struct node list[LENGTH] = {{0}};

/* Follows a list in the memory beside the RISC-V core, through many lines. */
__attribute__((noinline)) struct node *follow(struct node *node, long nodes) {
    for (; nodes > 0; nodes--)
        node = node->next;
    return node;
}

/* Is short, and called often. */
__attribute__((noinline)) int parity(unsigned long word) {
    int bits = 0;
    for (; word; word &= word - 1)
        bits++;
    return bits & 1;
}

/* Computes, without memory. */
__attribute__((noinline)) unsigned long mix(unsigned long word, long rounds) {
    for (; rounds > 0; rounds--)
        word = word * 6364136223846793005ul + 1442695040888963407ul;
    return word;
}

MOTET_ON("riscv64") void make_list(void) {
    for (long at = 0; at < LENGTH; at++)
        list[at].next = &list[(at * 5 + 4099) % LENGTH];
}

int main(void) {
    make_list();
    struct node *node = list;
    unsigned long word = 1;
    int odd = 0;
    double began = lab_now_us();
    for (int call = 0; call < 10; call++)
        node = follow(node, 1000);
    double followed = lab_now_us();
    for (int call = 0; call < 200; call++)
        odd += parity(call);
    double counted = lab_now_us();
    for (int call = 0; call < 10; call++)
        word = mix(word, 20000);
    double ended = lab_now_us();
    fprintf(stderr, "follow %.0f us, parity %.0f us, mix %.0f us\n", followed - began, counted - followed, ended - counted);
    printf("%.0f\n", ended - began);
    return odd == 0 || word == 0 || node == 0;
}
