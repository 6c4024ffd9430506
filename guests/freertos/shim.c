/* FreeRTOS's calls as functions, with its objects by number, for guests/images/src/freertos.rs. */
#include "FreeRTOS.h"
#include "task.h"
#include "queue.h"
#include "semphr.h"

#define OBJECTS_MAX 32

/* The guest's side. */
void motet_freertos_thread(size_t thread);
void motet_freertos_idle(void);

static TaskHandle_t threads[OBJECTS_MAX];
static QueueHandle_t queues[OBJECTS_MAX];
static size_t thread_count, queue_count;

static void run(void *thread)
{
    motet_freertos_thread((size_t)thread);
    vTaskSuspend(NULL);
}

void vApplicationIdleHook(void)
{
    motet_freertos_idle();
}

/* Priorities as in guests/metric: 0 is the most urgent. The thread is suspended if the caller is more urgent. */
size_t motet_freertos_create(size_t priority)
{
    configASSERT(thread_count < OBJECTS_MAX);
    size_t thread = thread_count++;
    BaseType_t created = xTaskCreate(run, "", configMINIMAL_STACK_SIZE, (void *)thread, configMAX_PRIORITIES - 1 - priority, &threads[thread]);
    configASSERT(created == pdPASS);
    return thread;
}

void motet_freertos_start(void)
{
    vTaskStartScheduler();
}

void motet_freertos_resume(size_t thread)
{
    vTaskResume(threads[thread]);
}

void motet_freertos_resume_from_interrupt(size_t thread)
{
    portYIELD_FROM_ISR(xTaskResumeFromISR(threads[thread]));
}

void motet_freertos_suspend(size_t thread)
{
    vTaskSuspend(threads[thread]);
}

void motet_freertos_relinquish(void)
{
    taskYIELD();
}

uint64_t motet_freertos_ticks(void)
{
    return xTaskGetTickCount();
}

void motet_freertos_sleep_until(uint64_t tick)
{
    TickType_t start = 0;
    xTaskDelayUntil(&start, tick);
}

static size_t add(QueueHandle_t queue)
{
    configASSERT(queue != NULL && queue_count < OBJECTS_MAX);
    queues[queue_count] = queue;
    return queue_count++;
}

size_t motet_freertos_semaphore(uint32_t count)
{
    return add(xSemaphoreCreateCounting(UINT32_MAX, count));
}

void motet_freertos_take(size_t semaphore)
{
    xSemaphoreTake(queues[semaphore], portMAX_DELAY);
}

/* Whether it counted further. */
BaseType_t motet_freertos_give(size_t semaphore)
{
    return xSemaphoreGive(queues[semaphore]);
}

BaseType_t motet_freertos_give_from_interrupt(size_t semaphore)
{
    BaseType_t is_more_urgent = pdFALSE;
    BaseType_t given = xSemaphoreGiveFromISR(queues[semaphore], &is_more_urgent);
    portYIELD_FROM_ISR(is_more_urgent);
    return given;
}

size_t motet_freertos_queue(size_t capacity, size_t message_len)
{
    return add(xQueueCreate(capacity, message_len));
}

void motet_freertos_send(size_t queue, const void *message)
{
    xQueueSend(queues[queue], message, portMAX_DELAY);
}

void motet_freertos_receive(size_t queue, void *message)
{
    xQueueReceive(queues[queue], message, portMAX_DELAY);
}

/* 0: there is none. */
size_t motet_freertos_allocate(size_t len)
{
    return (size_t)pvPortMalloc(len);
}

void motet_freertos_release(size_t block)
{
    vPortFree((void *)block);
}
