// LD_PRELOAD library before librdmacm that emulates a fabric that refuses all multicast groups.
// Soft-RoCE itself never does.
#include <rdma/rdma_cma.h>

#include <cerrno>

extern "C" int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*) {
  errno = EPERM;
  return -1;
}

extern "C" int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*) {
  errno = EPERM;
  return -1;
}
