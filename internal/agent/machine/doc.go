// Package machine answers: how short is this machine of what its pods need, and which pods use it?
//
// It reads the kernel's own files (cgroup v1 and v2, /proc, statfs) and computes from them what the kubelet computes, without
// asking the kubelet: that answers from samples that are ten seconds old, and is itself slow when memory is short. It works
// on Linux only.
package machine
