// Memory of a device that is owned, shown to other processes, or theirs, for who knows nothing of CUDA.
//
// Every call is kUnsupported, in one line that says what is needed, if this build has no CUDA or this machine no usable GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace xorbit {

// One stretch. Freed, or given back to who owns it, with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // Addresses of the device: the host must not touch them.
  virtual MutableBytes bytes() const = 0;
  // Of the whole allocation from its first byte on, of which another process may have told a part.
  virtual uint64_t allocated_bytes() const { return bytes().size(); }
};

// All zero. `device` counts as CUDA does, from 0. kUsage if there is no such device; kIo if it has too little memory.
Result<std::unique_ptr<DeviceMemory>> AllocateDeviceMemory(int device, uint64_t byte_count);

// Fills all of the memory: `make` puts what belongs at an offset into a chunk of host memory, and is called from several
// threads, once for every byte.
using ChunkMaker = std::function<void(uint64_t offset_bytes, MutableBytes chunk)>;
Status UploadToDevice(const DeviceMemory& memory, const ChunkMaker& make, int threads);

// How another process of this machine finds an allocation.
struct DeviceMemoryHandle {
  std::string device;  // its UUID in hexadecimal, for numbers differ between processes
  std::string handle;  // cudaIpcMemHandle_t in hexadecimal
};

// `allocation` is as cudaMalloc has given it. kRefused, with the setting's name, if it lies in memory that CUDA IPC cannot
// show.
Result<DeviceMemoryHandle> ExportDeviceMemory(MutableBytes allocation);

// Another process's allocation, which lives until that process frees it, whoever has opened it. kCorrupt for handles that are
// none; kNotFound if the process has ended; kRefused if the allocation is smaller, or its device hidden from this process.
Result<std::unique_ptr<DeviceMemory>> OpenDeviceMemory(const DeviceMemoryHandle& handle, uint64_t byte_count);

}  // namespace xorbit
