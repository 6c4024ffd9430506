/* A port of FreeRTOS to RISC-V's supervisor mode (FreeRTOS's own is for machine mode). Tasks run in S-mode on their stacks,
 * handlers of interrupts on one of their own, with interrupts masked. A task that gives up the processor calls vPortYield, which leaves the
 * task's registers as an interrupt does; no trap is needed for it. */
#ifndef PORTMACRO_H
#define PORTMACRO_H

#include <stdint.h>

#define portCHAR char
#define portFLOAT float
#define portDOUBLE double
#define portLONG long
#define portSHORT short
#define portSTACK_TYPE uint64_t
#define portBASE_TYPE int64_t
#define portPOINTER_SIZE_TYPE uint64_t

typedef portSTACK_TYPE StackType_t;
typedef portBASE_TYPE BaseType_t;
typedef uint64_t UBaseType_t;
typedef uint64_t TickType_t;

#define portMAX_DELAY ((TickType_t)UINT64_MAX)
#define portTICK_TYPE_IS_ATOMIC 1
#define portTICK_PERIOD_MS ((TickType_t)1000 / configTICK_RATE_HZ)
#define portSTACK_GROWTH (-1)
#define portBYTE_ALIGNMENT 16

void vPortYield(void);
#define portYIELD() vPortYield()

/* Whether another task is to run when the present interrupt ends. */
extern BaseType_t xPortMustSwitch;
#define portYIELD_FROM_ISR(must_switch) \
    do {                                \
        if (must_switch) xPortMustSwitch = pdTRUE; \
    } while (0)

/* sstatus.SIE */
#define portDISABLE_INTERRUPTS() __asm volatile("csrci sstatus, 2" ::: "memory")
#define portENABLE_INTERRUPTS() __asm volatile("csrsi sstatus, 2" ::: "memory")

/* How deep the running task is in critical sections; each task has its own. */
#define portCRITICAL_NESTING_IN_TCB 0
extern uint64_t ullPortCriticalNesting;
#define portENTER_CRITICAL() \
    do {                     \
        portDISABLE_INTERRUPTS(); \
        ullPortCriticalNesting++; \
    } while (0)
#define portEXIT_CRITICAL() \
    do {                    \
        if (--ullPortCriticalNesting == 0) portENABLE_INTERRUPTS(); \
    } while (0)

#define configUSE_PORT_OPTIMISED_TASK_SELECTION 1
#define portRECORD_READY_PRIORITY(priority, ready) (ready) |= (1UL << (priority))
#define portRESET_READY_PRIORITY(priority, ready) (ready) &= ~(1UL << (priority))
#define portGET_HIGHEST_PRIORITY(priority, ready) (priority) = (63 - __builtin_clzl(ready))

#define portTASK_FUNCTION_PROTO(function, argument) void function(void *argument)
#define portTASK_FUNCTION(function, argument) void function(void *argument)
#define portNOP() __asm volatile("nop")
#define portINLINE __inline
#define portMEMORY_BARRIER() __asm volatile("" ::: "memory")

#endif
