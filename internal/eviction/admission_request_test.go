package eviction

import (
	"testing"
	"time"

	"usher.sh/usher/internal/snapshot"
)

func TestExpire(t *testing.T) {
	owned, orphan := toyPod("s0", "store"), toyPod("s0", "store")
	owned.Owner, orphan.Owner = snapshot.Owner{Kind: "StatefulSet", Name: "s"}, snapshot.Owner{}
	const byOwner, held = true, true
	cases := map[string]struct {
		ago           time.Duration
		byOwner, held bool
		pod           *snapshot.Pod
		why           string // of the withdrawal, "" for none
		until         time.Duration
	}{
		"young":                         {ago: 9 * time.Minute, pod: orphan, until: time.Minute},
		"old":                           {ago: 10 * time.Minute, pod: owned, why: "alice has not asked again"},
		"old, of a pod that is unknown": {ago: 10 * time.Minute, why: "alice has not asked again"},
		"held":                          {ago: time.Hour, held: held, pod: owned},
		"from the near future":          {ago: -9 * time.Minute, until: 19 * time.Minute},
		"from the future":               {ago: -time.Hour, pod: owned, why: "alice has not asked again"},
		"of an owner":                   {ago: 19 * time.Minute, byOwner: byOwner, pod: owned, until: time.Minute},
		"of an owner, old":              {ago: 20 * time.Minute, byOwner: byOwner, pod: owned, why: "alice has not asked again"},
		"of a pod that is unknown":      {byOwner: byOwner, until: 20 * time.Minute},
		// An eviction for a rollout would lose the pod: of a StatefulSet that was deleted without its pods.
		"of a former owner":       {byOwner: byOwner, pod: orphan, why: "no controller owns the pod any more, so that none would replace it"},
		"of a former owner, held": {byOwner: byOwner, held: held, pod: orphan},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := AdmissionRequest{
				Pod: snapshot.Key{Namespace: "shop", Name: "s0"}, UID: "uid-s0", Requester: "alice", Asked: noon.Add(-c.ago), ByOwner: c.byOwner, Held: c.held,
			}
			got, until := request.Expire(c.pod, noon)
			switch {
			case (got != nil) != (c.why != ""):
				t.Fatalf("withdrawn: %t", got != nil)
			case got != nil && (got.Kind != Withdraw || got.Pod != request.Pod || got.UID != "uid-s0" || got.Requester != "alice" || got.Why != c.why):
				t.Errorf("%+v", *got)
			case until.IsZero() != (c.until == 0), c.until > 0 && !until.Equal(noon.Add(c.until)):
				t.Errorf("until %s", until)
			}
		})
	}
}
