package testlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KillLeader kills the manager that leads with SIGKILL, of those that usher install runs as pods on real nodes, and returns its pod.
func (l *Lab) KillLeader(ctx context.Context) (pod string, err error) {
	lease, err := l.client.CoordinationV1().Leases(systemNamespace).Get(ctx, "usher-manager", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("no manager leads")
	}
	pod, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	pid, err := processOf(pod)
	if err != nil {
		return "", err
	}
	return pod, syscall.Kill(pid, syscall.SIGKILL)
}

// processOf finds the manager's process of a pod among all of the machine.
func processOf(pod string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, process := range all {
		args, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil || !bytes.Contains(args, []byte("\x00manager\x00")) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(process, "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00HOSTNAME="+pod+"\x00")) {
			return strconv.Atoi(filepath.Base(process))
		}
	}
	return 0, fmt.Errorf("no process of %s is there", pod)
}
