// Command benchsets answers: how long do managers take until many MemberSets have their members, and how much memory do they have then?
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/throwaway"
)

const (
	namespaces = 10
	sets       = 500
	members    = 10_000
	allNodes   = 200

	mostMemory = 400 << 20
	// slowest is how long the members may take to be there.
	slowest = 30 * time.Minute
	// settling is a little more than the time after which Go collects garbage even where nothing is allocated.
	settling = 130 * time.Second
)

func main() {
	throwaway.Main("benchsets", "bench-memberset", os.Args[1:], measure)
}

func measure(ctx context.Context, lab *throwaway.Lab, usher string) error {
	if err := lab.Nodes.Create(ctx, lab.Client, nodes.Objects("node", allNodes, nodes.Zones(3)...)); err != nil {
		return err
	}
	managers, err := throwaway.StartManagers(ctx, lab, usher, "--workloads", "--member-sets")
	if err != nil {
		return err
	}
	defer managers.Close()
	began := time.Now()
	if err := makeSets(ctx, lab); err != nil {
		return errors.Join(err, managers.Ended())
	}
	took := time.Since(began)
	select {
	case <-time.After(settling):
	case <-ctx.Done():
		return ctx.Err()
	}
	memory, err := heaviest(managers)
	if err != nil {
		return err
	}
	fmt.Printf("%d sets, %d members: there after %.0f s, manager %d MB\n", sets, members, took.Seconds(), memory>>20)
	if memory > mostMemory {
		return fmt.Errorf("more than %d MB", mostMemory>>20)
	}
	return nil
}

// makeSets makes the sets, and returns when all their members are there.
func makeSets(ctx context.Context, lab *throwaway.Lab) error {
	writer, watcher, err := lab.UsherClients()
	if err != nil {
		return err
	}
	for i := range namespaces {
		if _, err := lab.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace: %w", err)
		}
	}
	err = throwaway.InParallel(ctx, sets, func(ctx context.Context, i int) error { return writer.Create(ctx, set(i)) })
	if err != nil {
		return fmt.Errorf("creating a set: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, slowest, fmt.Errorf("not all members were there within %s", slowest))
	defer cancel()
	source := await.Source[*v1alpha1.MemberSet]{Client: watcher, Resource: "membersets"}
	shown := time.Now()
	return await.Until(ctx, source, func(all []*v1alpha1.MemberSet) bool {
		there := whole(all)
		if time.Since(shown) > 10*time.Second {
			fmt.Printf("  %d members are there ...\n", there)
			shown = time.Now()
		}
		return there == members
	})
}

// whole returns how many members are whole.
func whole(all []*v1alpha1.MemberSet) int {
	n := 0
	for _, s := range all {
		for i := range s.Status.Members {
			if s.Status.Members[i].State == v1alpha1.MemberWhole {
				n++
			}
		}
	}
	return n
}

func namespace(i int) string { return fmt.Sprintf("sets-%d", i%namespaces) }

// set is one of plain members, with a template of the size that templates usually have.
func set(i int) *v1alpha1.MemberSet {
	settings := make([]string, 16)
	for j := range settings {
		settings[j] = fmt.Sprintf(`{"name":"SETTING_%d","value":"the value of setting %d"}`, j, j)
	}
	template := `{"metadata":{"labels":{"app":"kv"}},"spec":{"containers":[{"name":"kv","image":"registry.example.com/team/kv:v1.2.3","env":[` + strings.Join(settings, ",") + `]}]}}`
	return &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("kv-%d", i)},
		Spec: v1alpha1.MemberSetSpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Groups: []v1alpha1.MemberGroup{{Name: "server", Role: "workload", Replicas: new(int32(members / sets)), Template: runtime.RawExtension{Raw: []byte(template)}}},
		},
	}
}

// heaviest is the memory of the manager that has most, in bytes.
func heaviest(managers *throwaway.Managers) (int, error) {
	most := 0
	for _, r := range managers.Replicas {
		resident, err := r.Resident()
		if err != nil {
			return 0, errors.Join(err, managers.Ended())
		}
		most = max(most, resident)
	}
	return most, nil
}
