// Package cgroup2 asks whether the agent sees, is woken and kills on a real tree of cgroup v2 as it does on v1.
package cgroup2

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workArgument {
		if err := work(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
