package machine

import "testing"

// TestMonitorsAreNoContainers: beside each container, CRI-O has a cgroup for its monitor.
func TestMonitorsAreNoContainers(t *testing.T) {
	const id = "e07c6c8a9d3e" // after "conmon" in the order of names
	m := open(t, systemdV2.with(files{
		burstableV2 + "/crio-conmon-" + id + ".scope/memory.current": "1000000\n",
		burstableV2 + "/crio-conmon-" + id + ".scope/memory.stat":    "anon 900000\n",
		burstableV2 + "/crio-" + id + ".scope/memory.current":        "70000000\n",
		burstableV2 + "/crio-" + id + ".scope/memory.stat":           "anon 60000000\n",
	}), Options{})
	if got, err := m.Container(uid, "cri-o://"+id); err != nil || got.Usage != 70000000 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestOwnBelowARootNamedLikeAPod: what is cut out of a name is to be a pod's UID.
func TestOwnBelowARootNamedLikeAPod(t *testing.T) {
	const pods = "my.slice/my-pod_lab.slice/my-pod_lab-kubepods.slice"
	m := open(t, systemdV2.with(files{
		"sys/fs/cgroup/" + pods + "/x": "",
		"proc/self/cgroup":             "0::/" + pods + "/my-pod_lab-kubepods-burstable.slice/my-pod_lab-kubepods-burstable-pod" + uidSlice + ".slice/x.scope\n",
	}), Options{CgroupRoot: "/my/pod-lab"})
	if got := m.Own(); got != uid {
		t.Errorf("got %q", got)
	}
}
