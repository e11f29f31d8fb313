package machine

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tree is where cgroups are mounted: with v2 all controllers in one place, with v1 each in its own.
type tree struct {
	unified bool
	memory  string
	pids    string // "" without that controller
}

func (t tree) memoryFolder(cgroup string) string { return filepath.Join(t.memory, cgroup) }

func (t tree) pidsFolder(cgroup string) string { return filepath.Join(t.pids, cgroup) }

// findTree looks through the mounts. Beside v1 a v2 tree without controllers may be mounted; it does not count.
func findTree(root string) (tree, error) {
	file, err := os.Open(filepath.Join(cmp.Or(root, "/"), "proc/self/mounts"))
	if err != nil {
		return tree{}, err
	}
	defer file.Close()
	var found tree
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		folder, options := filepath.Join(root, fields[1]), strings.Split(fields[3], ",")
		switch fields[2] {
		case "cgroup":
			found.addV1(folder, options)
		case "cgroup2":
			found.addV2(folder)
		}
	}
	if found.memory == "" {
		return tree{}, errors.New("no cgroups with the memory controller are mounted: in a container, mount the host's /sys/fs/cgroup at the same place")
	}
	return found, nil
}

func (t *tree) addV1(folder string, options []string) {
	if t.memory == "" && slices.Contains(options, "memory") {
		t.memory = folder
	}
	if t.pids == "" && slices.Contains(options, "pids") {
		t.pids = folder
	}
}

func (t *tree) addV2(folder string) {
	controllers, err := readFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil || t.memory != "" {
		return
	}
	has := strings.Fields(string(controllers))
	if !slices.Contains(has, "memory") {
		return
	}
	t.unified, t.memory = true, folder
	if slices.Contains(has, "pids") {
		t.pids = folder
	}
}
