//go:build !linux

package foundationdb

import "os/exec"

// inOwnGroup does nothing: managers run on Linux.
func inOwnGroup(*exec.Cmd) {}
