/*
 * Stands in the place of libfabric, passes everything on to the real one, and does what a provider may do
 * and those of TCP never do: it refuses to register memory that peers are to reach, reports that an operation
 * has failed, and reports that a message was shorter than it is. Which of these it does is said by files in
 * the folder that FAULTS names; REAL_LIBFABRIC names the real library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

static void *real(const char *function, const char *version)
{
	static void *library;
	void *found;

	if (!library)
		library = dlopen(getenv("REAL_LIBFABRIC"), RTLD_NOW | RTLD_LOCAL);
	found = library ? dlvsym(library, function, version) : NULL;
	if (!found) {
		fprintf(stderr, "faulty_libfabric: %s: %s\n", function, dlerror());
		abort();
	}
	return found;
}

static void fault_file(const char *fault, char *path, size_t size)
{
	const char *folder = getenv("FAULTS");

	snprintf(path, size, "%s/%s", folder ? folder : "/nowhere", fault);
}

/* As long as the file is there. */
static bool is_on(const char *fault)
{
	char path[512];

	fault_file(fault, path, sizeof(path));
	return access(path, F_OK) == 0;
}

/* Once for each time that the file is made. */
static bool is_due(const char *fault)
{
	char path[512];

	fault_file(fault, path, sizeof(path));
	return unlink(path) == 0;
}

/* Tables of functions belong to the provider, which shares them: each object gets a copy, which is as long as
 * that of the library that runs. */
static void *copy_of(const void *table, size_t size)
{
	void *copy = malloc(size);

	if (!copy)
		abort();
	return memcpy(copy, table, size);
}

static struct fi_ops_mr real_mr;
static struct fi_ops_cq real_cq;
static struct fi_ops_domain real_domain;
static struct fi_ops_fabric real_fabric;

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	if ((access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && is_on("registration"))
		return -FI_ENOMEM;
	return real_mr.reg(fid, buf, len, access, offset, requested_key, flags, mr, context);
}

/* Operations that are to be reported as failed: of which queue, and which. */
#define MOST 16
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct fid_cq *cq;
	struct fi_cq_data_entry entry;
} failed[MOST];
static int failed_count;

static bool fails(const struct fi_cq_data_entry *entry)
{
	return ((entry->flags & FI_WRITE) && is_due("write-error")) ||
	       ((entry->flags & FI_READ) && is_due("read-error"));
}

static bool has_failed(struct fid_cq *cq)
{
	for (int nth = 0; nth < failed_count; nth++) {
		if (failed[nth].cq == cq)
			return true;
	}
	return false;
}

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	struct fi_cq_data_entry *entries = buf;
	ssize_t read, kept = 0;

	pthread_mutex_lock(&lock);
	if (has_failed(cq)) {
		pthread_mutex_unlock(&lock);
		return -FI_EAVAIL;
	}
	read = real_cq.read(cq, buf, count);
	for (ssize_t nth = 0; nth < read; nth++) {
		if (failed_count < MOST && fails(&entries[nth])) {
			failed[failed_count].cq = cq;
			failed[failed_count++].entry = entries[nth];
			continue;
		}
		if ((entries[nth].flags & FI_RECV) && is_on("short-message"))
			entries[nth].len /= 2;
		entries[kept++] = entries[nth];
	}
	if (read > 0)
		read = kept > 0 ? kept : -FI_EAVAIL;
	pthread_mutex_unlock(&lock);
	return read;
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	for (int nth = 0; nth < failed_count; nth++) {
		if (failed[nth].cq != cq)
			continue;
		memset(buf, 0, sizeof(*buf));
		buf->op_context = failed[nth].entry.op_context;
		buf->flags = failed[nth].entry.flags;
		buf->err = FI_EIO;
		failed[nth] = failed[--failed_count];
		pthread_mutex_unlock(&lock);
		return 1;
	}
	pthread_mutex_unlock(&lock);
	return real_cq.readerr(cq, buf, flags);
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
	int error = real_domain.cq_open(domain, attr, cq, context);

	if (!error) {
		struct fi_ops_cq *ops = copy_of((*cq)->ops, (*cq)->ops->size);

		real_cq = *(*cq)->ops;
		ops->read = cq_read;
		ops->readerr = cq_readerr;
		(*cq)->ops = ops;
	}
	return error;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	int error = real_fabric.domain(fabric, info, domain, context);

	if (!error) {
		struct fi_ops_domain *ops = copy_of((*domain)->ops, (*domain)->ops->size);
		struct fi_ops_mr *mr = copy_of((*domain)->mr, (*domain)->mr->size);

		real_domain = *(*domain)->ops;
		real_mr = *(*domain)->mr;
		ops->cq_open = cq_open;
		mr->reg = mr_reg;
		(*domain)->ops = ops;
		(*domain)->mr = mr;
	}
	return error;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	int (*open)(struct fi_fabric_attr *, struct fid_fabric **, void *) = real("fi_fabric", "FABRIC_1.1");
	int error = open(attr, fabric, context);

	if (!error) {
		struct fi_ops_fabric *ops = copy_of((*fabric)->ops, (*fabric)->ops->size);

		real_fabric = *(*fabric)->ops;
		ops->domain = open_domain;
		(*fabric)->ops = ops;
	}
	return error;
}

uint32_t fi_version(void)
{
	uint32_t (*version)(void) = real("fi_version", "FABRIC_1.0");

	return version();
}

const char *fi_strerror(int number)
{
	const char *(*text)(int) = real("fi_strerror", "FABRIC_1.0");

	return text(number);
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **) =
		real("fi_getinfo", "FABRIC_1.3");

	return get(version, node, service, flags, hints, info);
}

void fi_freeinfo(struct fi_info *info)
{
	void (*release)(struct fi_info *) = real("fi_freeinfo", "FABRIC_1.3");

	release(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	struct fi_info *(*copy)(const struct fi_info *) = real("fi_dupinfo", "FABRIC_1.3");

	return copy(info);
}
