/* Hexadecimal digits, whatever the locale. */
#ifndef LOCKSTEP_BASE_HEX_H
#define LOCKSTEP_BASE_HEX_H

/* The value of a digit, of either case; -1: it is none. */
int hex_digit(char c);

#endif
