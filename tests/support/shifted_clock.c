/* A clock that is CLOCK_SHIFT_S seconds off, for the programs that load this. Times of files are
   shifted with it, as on a machine whose clock is wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    static long known = -1L << 40;
    if (known == -1L << 40) {
        const char *told = getenv("CLOCK_SHIFT_S");
        known = told ? atol(told) : 0;
    }
    return known;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(clock_gettime) *real;
    if (!real) real = REAL(clock_gettime);
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return failed;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

static int shifted(int failed, struct stat *found) {
    if (!failed) {
        found->st_atim.tv_sec += shift();
        found->st_mtim.tv_sec += shift();
        found->st_ctim.tv_sec += shift();
    }
    return failed;
}

int stat(const char *restrict path, struct stat *restrict found) {
    return shifted(REAL(stat)(path, found), found);
}

int stat64(const char *restrict path, struct stat64 *restrict found) {
    return stat(path, (struct stat *)found); /* one layout on 64 bits */
}

int lstat(const char *restrict path, struct stat *restrict found) {
    return shifted(REAL(lstat)(path, found), found);
}

int lstat64(const char *restrict path, struct stat64 *restrict found) {
    return lstat(path, (struct stat *)found); /* one layout on 64 bits */
}

int fstat(int file, struct stat *found) { return shifted(REAL(fstat)(file, found), found); }

int fstat64(int file, struct stat64 *found) { return fstat(file, (struct stat *)found); }

int fstatat(int folder, const char *restrict path, struct stat *restrict found, int flags) {
    return shifted(REAL(fstatat)(folder, path, found, flags), found);
}

int fstatat64(int folder, const char *restrict path, struct stat64 *restrict found, int flags) {
    return fstatat(folder, path, (struct stat *)found, flags);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    struct timespec real[2];
    for (int i = 0; times && i < 2; i++) {
        real[i] = times[i];
        if (real[i].tv_nsec != UTIME_NOW && real[i].tv_nsec != UTIME_OMIT) real[i].tv_sec -= shift();
    }
    return REAL(utimensat)(folder, path, times ? real : NULL, flags);
}

int futimens(int file, const struct timespec times[2]) {
    struct timespec real[2];
    for (int i = 0; times && i < 2; i++) {
        real[i] = times[i];
        if (real[i].tv_nsec != UTIME_NOW && real[i].tv_nsec != UTIME_OMIT) real[i].tv_sec -= shift();
    }
    return REAL(futimens)(file, times ? real : NULL);
}
