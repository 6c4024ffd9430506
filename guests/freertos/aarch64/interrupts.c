/* What FreeRTOS's port for AArch64 asks of its user: which interrupt is whose. The port has acknowledged it, and ends it. */
#include <stdint.h>

#define SOFTWARE 0
#define TIMER 27
/* From here on there is none. */
#define SPURIOUS 1020

void FreeRTOS_Tick_Handler(void);
void motet_freertos_tick_begins(void);
void motet_freertos_software_interrupt(void);
void motet_freertos_unknown_interrupt(uint64_t interrupt);

void vApplicationIRQHandler(uint32_t interrupt)
{
    if (interrupt == TIMER) {
        motet_freertos_tick_begins();
        FreeRTOS_Tick_Handler();
    } else if (interrupt == SOFTWARE) {
        motet_freertos_software_interrupt();
    } else if (interrupt < SPURIOUS) {
        motet_freertos_unknown_interrupt(interrupt);
    }
}
