"""No clock, thread, random, file, socket or environment symbol in an archive of a pure folder.

    purity.py NM ARCHIVE
"""
import re
import subprocess
import sys

C_NAMES = """time clock clock_gettime clock_nanosleep gettimeofday timespec_get localtime localtime_r gmtime nanosleep usleep sleep alarm timer_create
rand rand_r srand random srandom drand48 getrandom getentropy arc4random
fork vfork execve waitpid kill raise signal sigaction getpid gethostname uname getenv secure_getenv setenv system popen
open open64 openat openat64 creat read pread pread64 write pwrite pwrite64 close fsync fdatasync ftruncate ftruncate64 rename link unlink mkdir stat stat64 fstat fstat64 lstat
mmap mmap64 munmap opendir readdir readdir64 fopen fopen64 fread fwrite fclose fflush fputs puts printf fprintf vfprintf
socket connect bind listen accept accept4 send sendto recv recvfrom poll ppoll select epoll_create epoll_create1 epoll_wait io_uring_setup getaddrinfo""".split()
FORBIDDEN = [re.compile(r"^(?:" + "|".join(C_NAMES) + r")$"),
             re.compile(r"^(?:pthread_|sem_|mtx_|cnd_|thrd_)"),
             re.compile(r"std::(?:__\w+::)?(?:thread|this_thread|random_device|mutex|recursive_mutex|shared_mutex|condition_variable|filesystem|chrono::\w+::\w*clock)\b"),
             re.compile(r"std::(?:__\w+::)?basic_[io]*f(?:stream|ilebuf)"), re.compile(r"\bclock::now\(\)"), re.compile(r"^std::(?:cout|cerr|clog|cin)$")]


def impure(symbols):
    return [symbol for symbol in symbols if any(pattern.search(symbol) for pattern in FORBIDDEN)]


def main():
    listed = subprocess.run([sys.argv[1], "-C", "--undefined-only", "--format=posix", sys.argv[2]], capture_output=True, text=True, check=True).stdout
    symbols = sorted({re.sub(r"@.*", "", line.rsplit(" U", 1)[0]).strip() for line in listed.splitlines() if " U" in line})
    if not symbols:
        print(f"{sys.argv[2]}: nm shows no undefined symbol at all; the check sees nothing")
        return 1
    bad = impure(symbols)
    print("\n".join(f"{sys.argv[2]} uses {symbol}" for symbol in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
