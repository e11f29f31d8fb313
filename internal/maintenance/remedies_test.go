package maintenance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func patch(field, value string) string {
	return `kubectl patch nodemaintenance web --type=merge -p '{"spec":{"drain":{"` + field + `":"` + value + `"}}}'`
}

// A flag is replaced where it is one, and not in a name or in words of others.
func TestRemediesNameFieldsInsteadOfFlags(t *testing.T) {
	for given, want := range map[string]string{
		"--force":                               patch("unmanagedPods", "Evict"),
		"--force to evict it all the same":      patch("unmanagedPods", "Evict") + " to evict it all the same",
		"--delete-emptydir-data to accept that": patch("emptyDirPods", "Evict") + " to accept that",
		"--surge=auto, or wait":                 patch("surge", "Auto") + ", or wait",
		"wait, or --surge=never to go without":  "wait, or " + patch("surge", "Never") + " to go without",
		"--ignore-daemonsets to leave it there, or --daemonsets=evict to remove it last": patch("daemonSetPods", "Ignore") + " to leave it there, or " +
			patch("daemonSetPods", "Evict") + " to remove it last",

		"kubectl edit pdb -n td x--force":                        "kubectl edit pdb -n td x--force",
		"kubectl edit pdb -n x--surge=auto y":                    "kubectl edit pdb -n x--surge=auto y",
		"kubectl edit pdb -n td a--force.b, or --force":          "kubectl edit pdb -n td a--force.b, or " + patch("unmanagedPods", "Evict"),
		`stop the drain of "eve \" --force now" --force`:         `stop the drain of "eve \" --force now" ` + patch("unmanagedPods", "Evict"),
		"kubectl delete pod -n a--delete-emptydir-data--force b": "kubectl delete pod -n a--delete-emptydir-data--force b",
	} {
		b := drain.Blocker{Reason: drain.UnreplicatedPod, Remedy: given}
		if diff := cmp.Diff(want, remedyOf(&b, "web")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
}

// No person can run a maintenance's drain again.
func TestRemediesOfAMaintenanceRunNoDrain(t *testing.T) {
	pod := snapshot.Key{Namespace: "shop", Name: "web-1"}
	for _, c := range []struct {
		b    drain.Blocker
		want string
	}{
		{drain.Blocker{Reason: drain.StartedAfterCordon, Pod: pod, Node: "n1", Remedy: "run the drain again to evict it"}, "usher evict web-1 -n shop"},
		{
			drain.Blocker{Reason: drain.StartedAfterCordon, Pod: pod, Remedy: "change spec.nodeName: kubectl edit -n shop deployment/web"},
			"change spec.nodeName: kubectl edit -n shop deployment/web",
		},
		{
			drain.Blocker{Reason: drain.NodeNotCordoned, Node: "n1", Remedy: "run the drain again if the node is still to be drained"},
			"give the node back: usher maintain --delete web; or take the record of its drain off, and it is drained anew within 5 minutes: kubectl annotate node n1 usher.sh/drain-",
		},
		{drain.Blocker{Reason: drain.NodeReplaced, Node: "n1", Remedy: "run the drain again to drain it"}, "wait: the maintenance leaves the node to itself"},
		{drain.Blocker{Reason: drain.DrainEnded, Pod: pod, Remedy: "run the drain again"}, "usher evict web-1 -n shop"},
		{
			drain.Blocker{Reason: drain.RejectedByServer, Pod: pod, Remedy: "kubectl delete evictionrequest -n shop r, and run the drain again"},
			"kubectl delete evictionrequest -n shop r; it is drained anew within 5 minutes",
		},
		{
			drain.Blocker{Reason: drain.AnotherDrain, Remedy: "wait, or ask for the right to list and watch Leases in namespace kube-public and run the drain again"},
			"wait, or ask for the right to list and watch Leases in namespace kube-public",
		},
		{drain.Blocker{Reason: drain.EvidenceUnavailable, Pod: pod, Remedy: "ask for the right, or leave the pod out (--pod-selector)"}, "ask for the right"},
	} {
		if diff := cmp.Diff(c.want, remedyOf(&c.b, "web")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.b.Remedy, diff)
		}
	}
}
