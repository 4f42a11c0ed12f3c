/* A temporary folder for tests that need files: made empty, removed with all that is in it. */
#ifndef LOCKSTEP_TESTS_SUPPORT_FOLDER_H
#define LOCKSTEP_TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct TestFolder {
    char path[256];
} TestFolder;

/* Each ends the test program when the system refuses. */
void test_folder_make(TestFolder *f);
void test_folder_remove(TestFolder *f);
/* The folder of a test program that needs one only, and what makes and removes it for cmocka, around each test or all
 * of them. */
extern TestFolder test_folder;
int test_folder_setup(void **state);
int test_folder_teardown(void **state);

/* "path/name", in a buffer of the folder's own that the next call reuses (four in turn). */
const char *test_path(const TestFolder *f, const char *name);
void test_write(const TestFolder *f, const char *name, const void *bytes, size_t n);
void test_write_text(const TestFolder *f, const char *name, const char *text);
bool test_exists(const char *path);
/* Whole content, NUL-terminated, to be freed with free(); *n may be NULL. */
char *test_read(const char *path, size_t *n);
int test_entries(const TestFolder *f); /* names in the folder itself */

#endif
