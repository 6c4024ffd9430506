/* The port to RISC-V's supervisor mode: how tasks begin, and what interrupts do. */
#include "FreeRTOS.h"
#include "task.h"

/* As in switch.S. */
enum { FRAME_WORDS = 32, PC = 0, RA = 1, STATUS = 2, NESTING = 3, A0 = 10 };

#define INTERRUPT (UINT64_C(1) << 63)
#define SOFTWARE 1
#define TIMER 5
#define SSTATUS_SPIE (UINT64_C(1) << 5)
#define SSTATUS_SPP (UINT64_C(1) << 8)

void motet_freertos_tick_begins(void);
void motet_freertos_software_interrupt(void);
void motet_guest_fault(uint64_t cause, uint64_t value, uint64_t pc);
void vPortStartFirstTask(void);

BaseType_t xPortMustSwitch = pdFALSE;
/* Not 0, so that nothing takes interrupts before the first task does. */
uint64_t ullPortCriticalNesting = 1;

static void task_returned(void)
{
    configASSERT(pdFALSE);
}

StackType_t *pxPortInitialiseStack(StackType_t *top, TaskFunction_t code, void *parameters)
{
    StackType_t *frame = top - FRAME_WORDS;
    for (int word = 0; word < FRAME_WORDS; word++) frame[word] = 0;
    frame[PC] = (StackType_t)code;
    frame[RA] = (StackType_t)task_returned;
    frame[STATUS] = SSTATUS_SPP | SSTATUS_SPIE;
    frame[A0] = (StackType_t)parameters;
    return frame;
}

BaseType_t xPortStartScheduler(void)
{
    configSETUP_TICK_INTERRUPT();
    vPortStartFirstTask();
    return pdFALSE;
}

void vPortEndScheduler(void)
{
    configASSERT(pdFALSE);
}

/* On the handlers' stack; afterwards the current task runs. */
void vPortHandleTrap(uint64_t cause, uint64_t value, uint64_t pc)
{
    if (cause == (INTERRUPT | TIMER)) {
        motet_freertos_tick_begins();
        configCLEAR_TICK_INTERRUPT();
        if (xTaskIncrementTick() != pdFALSE) xPortMustSwitch = pdTRUE;
    } else if (cause == (INTERRUPT | SOFTWARE)) {
        __asm volatile("csrci sip, 2" ::: "memory");
        motet_freertos_software_interrupt();
    } else {
        motet_guest_fault(cause, value, pc);
    }
    if (xPortMustSwitch) {
        xPortMustSwitch = pdFALSE;
        vTaskSwitchContext();
    }
}
