/* Preloaded into a daemon, this sets its wall clock: what asks for the time of day gets it with an offset, which a test writes
 * into the file that CLOCK_PAGE names. Time that only goes on (CLOCK_MONOTONIC) is left alone, as it is when a machine's clock is
 * set. tests/faults/clock.rs builds it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    _Atomic int64_t offset_seconds;
    _Atomic uint64_t answers;
};

static struct page *page;

__attribute__((constructor)) static void open_page(void)
{
    const char *path = getenv("CLOCK_PAGE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        page = mapped;
}

static int64_t offset_seconds(void)
{
    if (!page)
        return 0;
    atomic_fetch_add(&page->answers, 1);
    return atomic_load(&page->offset_seconds);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI))
        time->tv_sec += offset_seconds();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
