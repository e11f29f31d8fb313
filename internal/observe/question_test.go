package observe

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/internal/snapshot"
)

// What is sent has a limit, whatever tenants write: the name of an owner or of a claim is anything.
func TestQuestionsAreBounded(t *testing.T) {
	long := strings.Repeat("/", 400_000)
	for name, c := range map[string]struct{ got, want question }{
		"a name":             {ofName(statefulSets, "shop", "web"), question{resource: statefulSets, namespace: "shop", fields: "metadata.name=web"}},
		"a long name":        {ofName(statefulSets, "shop", long), question{resource: statefulSets, namespace: "shop"}},
		"one with escapes":   {ofName(statefulSets, "shop", strings.Repeat(",", snapshot.LongestSelector/2)), question{resource: statefulSets, namespace: "shop"}},
		"a selector":         {selectedBy(pods, "shop", "app=web"), question{resource: pods, namespace: "shop", labels: "app=web"}},
		"a long selector":    {selectedBy(pods, "shop", long), question{resource: pods, namespace: "shop"}},
		"a long node":        {onNode(long), question{resource: pods}},
		"a node with a name": {onNode("a"), question{resource: pods, fields: "spec.nodeName=a"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %.100v, want %v", name, c.got, c.want)
		}
	}
}

// So has what is sent by one look.
func TestLookAtALongName(t *testing.T) {
	client := fake.NewClientset()
	look := NewLook(client, new(Clock))
	if err := look.Pod(t.Context(), snapshot.Key{Namespace: "shop", Name: strings.Repeat("/", 400_000)}); err != nil {
		t.Error(err)
	}
	if sent := client.Actions(); len(sent) > 0 {
		t.Errorf("%.200v is sent", sent)
	}
}
