package fdbreal

import (
	"os/exec"
	"syscall"
)

// dieWithTest ends a process with the test, however that ends.
func dieWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
