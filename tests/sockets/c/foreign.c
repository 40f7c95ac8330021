/*
 * A library of a program that has functions of its own under names of the C library: built with -DLIBRARY as the library, else as the
 * program that needs it.
 */
struct large {
    long words[5];
};

#ifdef LIBRARY
#include <stdarg.h>

int sendmsg(int to, int value, int flags) { return to * 100 + value * 10 + flags; }
int pipe(int a, int b, int c) { return a + 10 * b + 100 * c; }
int send(int a, int b, int c, int d, int e, int f, int g, int h) { return a + b + c + d + e + f + g * 10 + h * 100; }
double listen(double a, double b) { return a * b; }
struct large connect(long a, long b) { return (struct large){{a, b, a + b, a - b, a * b}}; }
long accept(long a) { return a; }
int clone(int a) { return -a; }
int system(int count, ...)
{
    va_list arguments;
    double sum = 0;
    va_start(arguments, count);
    while (count-- > 0)
        sum += va_arg(arguments, double);
    va_end(arguments);
    return (int)sum;
}
#else
#include <stdio.h>

int sendmsg(int, int, int);
int pipe(int, int, int);
int send(int, int, int, int, int, int, int, int);
double listen(double, double);
struct large connect(long, long);
long accept(long);
int clone(int);
int system(int, ...);

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int turn = 0; turn < 3; turn++) {
        struct large large = connect(7, 3);
        printf("%d %d %d\n", sendmsg(1, 2, 3), pipe(1, 2, 3), send(1, 2, 3, 4, 5, 6, 7, 8));
        printf("%g %ld %d\n", listen(2.5, 4), accept(0x123456789abcL), clone(5));
        printf("%ld %ld %ld %ld %ld\n", large.words[0], large.words[1], large.words[2], large.words[3], large.words[4]);
        printf("%d\n", system(3, 1.5, 2.5, 3.0));
    }
    return 0;
}
#endif
