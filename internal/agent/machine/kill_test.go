package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// podsOfV1 makes, on this machine, a cgroup of all pods with the cgroups of some pods.
func podsOfV1(t *testing.T, uids ...types.UID) (*Machine, string) {
	t.Helper()
	root := "usher-kill-" + strconv.Itoa(os.Getpid())
	folders := []string{root, root + "/kubepods"}
	for _, uid := range uids {
		folders = append(folders, root+"/kubepods/pod"+string(uid), root+"/kubepods/pod"+string(uid)+"/container")
	}
	for _, folder := range folders {
		path := filepath.Join("/sys/fs/cgroup/memory", folder)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Skipf("SKIPPED, NOT TESTED: this needs root and the memory controller of cgroup v1: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		})
	}
	m, err := Open(Options{CgroupRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	return m, filepath.Join("/sys/fs/cgroup/memory", root, "kubepods")
}

// start runs a shell with a child in a cgroup.
func start(t *testing.T, cgroup string) *exec.Cmd {
	t.Helper()
	ready, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && { sleep 600 & echo ready; wait; }", cgroup))
	cmd.Stdout = output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := fmt.Fscanln(ready, new(string)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestKillEndsOnePodAndNoOther(t *testing.T) {
	m, pods := podsOfV1(t, uid, guaranteedUID)
	victim := start(t, pods+"/pod"+uid+"/container")
	other := start(t, pods+"/pod"+guaranteedUID)
	killed, err := m.Kill(uid)
	if err != nil || killed != 2 {
		t.Errorf("killed %d, %v; want the shell and its child", killed, err)
	}
	if err := victim.Wait(); err == nil || victim.ProcessState.ExitCode() != -1 {
		t.Errorf("the victim ended with %v", err)
	}
	if left, err := m.processes(m.pods.of(uid)[0]); err != nil || len(left) > 1 { // the child may not be reaped yet
		t.Errorf("left: %v, %v", left, err)
	}
	if use, err := m.Pod(guaranteedUID); err != nil || use.Memory.Usage == 0 {
		t.Errorf("the other pod uses %+v, %v", use, err)
	}
	if killed, err := m.Kill(guaranteedUID); killed != 2 || err != nil {
		t.Errorf("the other pod was not whole any more: %d, %v", killed, err)
	}
	_ = other.Wait()
	waitEmpty(t, m, uid, guaranteedUID)
}

// waitEmpty waits for orphans to be reaped: until then their cgroups cannot be removed.
func waitEmpty(t *testing.T, m *Machine, uids ...types.UID) {
	t.Helper()
	for _, uid := range uids {
		for t.Context().Err() == nil {
			if left, err := m.processes(m.pods.of(uid)[0]); err != nil || len(left) == 0 {
				break
			}
		}
	}
}

func TestKillNeverEndsItself(t *testing.T) {
	m, pods := podsOfV1(t, uid)
	home, err := m.ownCgroup()
	if err != nil {
		t.Fatal(err)
	}
	enter(t, filepath.Join(pods, "pod"+uid, "container"))
	defer enter(t, m.tree.memoryFolder(home))
	if _, err := m.Kill(uid); !errors.Is(err, ErrOwnPod) {
		t.Errorf("got %v", err)
	}
	if got := m.Own(); got != uid {
		t.Errorf("own pod: %q", got)
	}
}

func enter(t *testing.T, folder string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		t.Fatal(err)
	}
}

// TestKillLooksAgainWhereAProcessIs: the number in a cgroup's list may be that of another process by now.
func TestKillLooksAgainWhereAProcessIs(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Wait() }()
	defer func() { _ = other.Process.Kill() }()
	pid := strconv.Itoa(other.Process.Pid)
	m := open(t, plainV1.with(files{
		podV1 + "/cgroup.procs":   pid + "\n",
		"proc/" + pid + "/cgroup": "4:memory:/elsewhere\n",
		podV1 + "/x/cgroup.procs": "",
	}), Options{CgroupRoot: "/lab"})
	if killed, err := m.Kill(uid); killed != 0 || err != nil {
		t.Errorf("killed %d, %v", killed, err)
	}
}

func TestKillOfV2(t *testing.T) {
	m := open(t, systemdV2.with(files{burstableV2 + "/cgroup.kill": ""}), Options{})
	killed, err := m.Kill(uid)
	if err != nil || killed != 2 {
		t.Errorf("killed %d, %v", killed, err)
	}
	text, err := os.ReadFile(filepath.Join(m.options.Root, burstableV2, "cgroup.kill"))
	if err != nil || string(text) != "1" {
		t.Errorf("wrote %q, %v", text, err)
	}
	if _, err := m.Kill("f0000000-0000-4000-8000-000000000009"); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("a pod that is not here: %v", err)
	}
}

func TestKillOfV2NeverEndsItself(t *testing.T) {
	m := open(t, systemdV2.with(files{
		burstableV2 + "/cgroup.kill":  "",
		"proc/self/cgroup":            "0::/" + containerV2[len("sys/fs/cgroup/"):] + "\n",
		containerV2 + "/cgroup.procs": "101\n" + self + "\n",
	}), Options{})
	if _, err := m.Kill(uid); !errors.Is(err, ErrOwnPod) {
		t.Errorf("got %v", err)
	}
}

func TestCanKill(t *testing.T) {
	ownCgroup := "0::/" + strings.TrimPrefix(containerV2, "sys/fs/cgroup/") + "\n"
	inPod := systemdV2.with(files{"proc/self/cgroup": ownCgroup, containerV2 + "/cgroup.procs": self + "\n", "proc/1/cgroup": "0::/init.scope\n"})
	tests := []struct {
		name string
		f    files
		ok   bool
	}{
		{"a process of the host", systemdV2, true},
		{"numbers of another namespace", systemdV2.with(files{containerV2 + "/cgroup.procs": "0\n0\n"}), false},
		{"a view of its own", systemdV2.with(files{"proc/self/cgroup": "0::/\n"}), false},
		{"in a pod, with the host's processes", inPod, true},
		{"in a pod, with its own processes", inPod.with(files{"proc/1/cgroup": ownCgroup}), false},
		{"another view of its own", systemdV2.with(files{"proc/self/cgroup": "0::/../../x\n"}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := open(t, tt.f, Options{}).CanKill(); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestKillOnlyWhereTheOwnCgroupIsKnown: a process that does not know its own cgroup could kill itself.
func TestKillOnlyWhereTheOwnCgroupIsKnown(t *testing.T) {
	m := open(t, systemdV2.with(files{"proc/self/cgroup": "0::/\n", burstableV2 + "/cgroup.kill": ""}), Options{})
	if killed, err := m.Kill(uid); !errors.Is(err, errOwnView) {
		t.Errorf("killed %d, %v", killed, err)
	}
}
