/* How the guest uses FreeRTOS: one core, preemption, no time slices (as Motet's real-time kernel has none), a clock of the
 * board's for ticks. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include <stddef.h>

void motet_freertos_assert(const char *file, size_t line);
void motet_freertos_start_ticks(void);
void motet_freertos_next_tick(void);

#define configNUMBER_OF_CORES 1
#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 0
#define configUSE_IDLE_HOOK 1
#define configUSE_TICK_HOOK 0
#define configMAX_PRIORITIES 32
#define configMINIMAL_STACK_SIZE 1024
#define configTOTAL_HEAP_SIZE ((size_t)(512 * 1024))
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configSUPPORT_STATIC_ALLOCATION 0
#define configMAX_TASK_NAME_LEN 8
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_64_BITS
/* Nominal: the guest's arguments say how long ticks are, and nothing here converts them. */
#define configTICK_RATE_HZ 1000
#define configUSE_TIMERS 0
#define configUSE_MUTEXES 0
#define configUSE_COUNTING_SEMAPHORES 1
#define configASSERT(condition) \
    if (!(condition)) motet_freertos_assert(__FILE__, __LINE__)

#define INCLUDE_vTaskSuspend 1
#define INCLUDE_xTaskDelayUntil 1
#define INCLUDE_xTaskResumeFromISR 1

#define configSETUP_TICK_INTERRUPT() motet_freertos_start_ticks()
#define configCLEAR_TICK_INTERRUPT() motet_freertos_next_tick()

/* The interrupt controller of AArch64 has 32 priorities at least. Of those that may call FreeRTOS, 18 is the most urgent; the board
 * gives ticks 30 and the software interrupt 20. */
#define configUNIQUE_INTERRUPT_PRIORITIES 32
#define configMAX_API_CALL_INTERRUPT_PRIORITY 18
/* Nobody uses floating point. */
#define configUSE_TASK_FPU_SUPPORT 1

#endif
