#include "bench/packet_bench/raw.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace packet_bench {
namespace {

constexpr uint16_t kEtherType = 0x88b5;
constexpr size_t kBatch = 32, kBlocks = 256, kHeadBytes = 14;

void Check(bool good, const char* what) {
  if (!good) throw millrace::Error(what, ": ", millrace::ErrnoText(errno));
}

int Open() {
  const int fd = socket(AF_PACKET, SOCK_RAW, 0);
  Check(fd >= 0, "packet socket");
  return fd;
}

void Bind(int fd, const std::string& device) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(kEtherType);
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  Check(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind");
}

}  // namespace

struct RawSender::Socket {
  int fd = Open();
  std::array<unsigned char, kHeadBytes> head{};
  ~Socket() { close(fd); }
};

RawSender::RawSender(const std::string& device, const std::string& to)
    : socket_(std::make_unique<Socket>()) {
  Bind(socket_->fd, device);
  auto& head = socket_->head;
  for (size_t i = 0; i < 6; ++i) {
    head[i] = static_cast<unsigned char>(std::stoi(to.substr(3 * i, 2), nullptr, 16));
  }
  head[12] = kEtherType >> 8;
  head[13] = kEtherType & 0xff;
}

RawSender::~RawSender() = default;

void RawSender::Send(size_t payload, const std::atomic<bool>& stop) {
  std::vector<unsigned char> bytes(payload);
  iovec pieces[] = {{socket_->head.data(), kHeadBytes}, {bytes.data(), payload}};
  std::array<mmsghdr, kBatch> headers{};
  for (mmsghdr& header : headers) {
    header.msg_hdr.msg_iov = pieces;
    header.msg_hdr.msg_iovlen = 2;
  }
  while (!stop) sendmmsg(socket_->fd, headers.data(), kBatch, 0);
}

struct RawReceiver::Ring {
  explicit Ring(size_t bytes) : block_bytes(bytes) {
    const int version = TPACKET_V3;
    Check(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) == 0, "version");
    constexpr unsigned kFrameBytes = 2048;
    tpacket_req3 request{};
    request.tp_block_size = static_cast<unsigned>(bytes);
    request.tp_block_nr = kBlocks;
    request.tp_frame_size = kFrameBytes;
    request.tp_frame_nr = static_cast<unsigned>(bytes / kFrameBytes * kBlocks);
    request.tp_retire_blk_tov = 1;
    Check(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) == 0, "ring");
    memory = static_cast<char*>(
        mmap(nullptr, kBlocks * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0));
    Check(memory != MAP_FAILED, "mmap");
  }
  ~Ring() {
    munmap(memory, kBlocks * block_bytes);
    close(fd);
  }
  int fd = Open();
  size_t block_bytes;
  char* memory = nullptr;
};

RawReceiver::RawReceiver(const std::string& device, size_t block_bytes)
    : ring_(std::make_unique<Ring>(block_bytes)) {
  Bind(ring_->fd, device);
}

RawReceiver::~RawReceiver() = default;

void RawReceiver::Receive(std::atomic<uint64_t>* received, const std::atomic<bool>& stop) {
  for (size_t next = 0; !stop;) {
    auto& head =
        reinterpret_cast<tpacket_block_desc*>(ring_->memory + next * ring_->block_bytes)->hdr.bh1;
    const std::atomic_ref<uint32_t> status(head.block_status);
    if (!(status.load(std::memory_order_acquire) & TP_STATUS_USER)) {
      pollfd polled = {ring_->fd, POLLIN, 0};
      poll(&polled, 1, 50);  // not for ever: `stop` has to be seen
      continue;
    }
    uint64_t sum = 0;
    const char* at = ring_->memory + next * ring_->block_bytes + head.offset_to_first_pkt;
    for (uint32_t i = 0; i < head.num_pkts; ++i) {
      const auto* packet = reinterpret_cast<const tpacket3_hdr*>(at);
      sum += packet->tp_snaplen - kHeadBytes;
      at += packet->tp_next_offset;
    }
    status.store(TP_STATUS_KERNEL, std::memory_order_release);
    *received += sum;
    next = (next + 1) % kBlocks;
  }
}

}  // namespace packet_bench
