package realetcd

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/testlab"
)

const managerNamespace = "usher-system"

// usher is the program, installed into the cluster as pods.
type usher struct {
	lab     *testlab.Lab
	program string
}

// install runs two managers as pods on the real nodes, from the image, and takes everything away after the test.
func install(t *testing.T, l *testlab.Lab, program string) *usher {
	t.Helper()
	u := &usher{lab: l, program: program}
	t.Cleanup(func() { u.must(t, "uninstall") })
	t.Log(lastLine(u.must(t, "install", "--image", image.UsherName, "--timeout", "10m")))
	return u
}

func (u *usher) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, u.program, append([]string{"--kubeconfig", u.lab.Kubeconfig()}, args...)...)
}

func (u *usher) must(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, u.command(context.WithoutCancel(t.Context()), args...))
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

func (e *etcd) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	args = append([]string{"--kubeconfig", e.lab.Kubeconfig(), "-n", e.namespace}, args...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), e.lab.Binary(t, "kubectl"), args...)
	cmd.Stdin = strings.NewReader(input)
	return run(t, cmd)
}

var policy = template.Must(template.New("policy").Parse(`
apiVersion: usher.sh/v1alpha1
kind: EvictionPolicy
metadata: {name: etcd}
spec:
  system:
    etcd:
      endpoints: [{{range $i, $e := .}}{{if $i}}, {{end}}"{{$e}}"{{end}}]
  members:
  - role: etcd-member
    selector: {matchLabels: {app: etcd}}
    provider: {statefulSet: {}}
`))

// govern makes the cluster's pods governed, and returns when they are. Managers that were killed before are back then.
func (e *etcd) govern(t *testing.T) {
	t.Helper()
	e.kubectl(t, "", "rollout", "status", "deployment/usher-manager", "-n", managerNamespace, "--timeout=5m")
	e.applyPolicy(t)
	t.Log(lastLine(e.kubectl(t, "", "get", "evictionpolicy", "etcd")))
}

// applyPolicy returns when the policy is at work.
func (e *etcd) applyPolicy(t *testing.T) {
	t.Helper()
	var text bytes.Buffer
	if err := policy.Execute(&text, e.endpoints()); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, text.String(), "apply", "-f", "-")
	e.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=5m", "evictionpolicy/etcd")
}

// release ends that, and fails the test when the policy does not go. Until their labels are off, the pods stay on their nodes,
// whichever client deletes them.
func (e *etcd) release(t *testing.T) {
	t.Helper()
	e.kubectl(t, "", "delete", "evictionpolicy", "etcd", "--timeout=5m")
	testlab.WaitFor(t, e.lab.Pods(e.namespace), "the members to be let go", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Labels[v1alpha1.PolicyLabel] != "" })
	})
}
