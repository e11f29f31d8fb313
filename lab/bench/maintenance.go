package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/throwaway"
)

// benchMaintenance drains the set-ups with usher drain and by NodeMaintenances, while the managers run, and then single replicas with
// kubectl, with a policy and without.
func benchMaintenance(ctx context.Context, lab *throwaway.Lab, usher string) error {
	managers, err := throwaway.StartManagers(ctx, lab, usher, "--maintenance", "--workloads")
	if err != nil {
		return err
	}
	defer managers.Close()
	kubectl, err := toolsOf(lab, usher)
	if err != nil {
		return err
	}
	runs, err := measureAll(ctx, lab, maintenanceTools(kubectl))
	if err != nil {
		return err
	}
	lines, err := measureDeadlock(ctx, lab, kubectl[0])
	if err != nil {
		return err
	}
	if err := managers.Stop(); err != nil {
		return err
	}
	return finish(lab, runs, lines, reportMaintenance)
}

// maintenanceTools are the two ways of usher drain, each followed by the same drain as a NodeMaintenance.
func maintenanceTools(all []tool) []tool {
	manager := func(name string, surges bool) tool {
		return tool{name: name, agent: usherAgent, surges: surges, manager: true}
	}
	return []tool{all[1], manager("manager, in place", false), all[2], manager("manager, surge", true)}
}

// maintain takes the targets out of service, and waits until they are drained.
func maintain(ctx context.Context, t tool, st *stage) error {
	writer, _, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	surge := v1alpha1.SurgeNever
	if t.surges {
		surge = v1alpha1.SurgeAlways
	}
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: st.run},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Nodes: v1alpha1.NodeSelection{Names: st.targets}, Requester: "bench.usher.sh/maintenance", Reason: t.name,
			Drain:       v1alpha1.MaintenanceDrain{Surge: surge},
			Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: int32(len(st.targets)), Zones: 1}, //nolint:gosec // ten at the most
		},
	}
	if err := writer.Create(ctx, m); err != nil {
		return fmt.Errorf("creating a maintenance: %w", err)
	}
	return st.awaitMaintenance(ctx, func(all []*v1alpha1.NodeMaintenance) bool {
		return len(all) == 1 && meta.IsStatusConditionTrue(all[0].Status.Conditions, "Ready")
	})
}

// endMaintenance gives the targets back.
func endMaintenance(ctx context.Context, st *stage) error {
	writer, _, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	if err := writer.Delete(ctx, &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: st.run}}); err != nil {
		return fmt.Errorf("deleting a maintenance: %w", err)
	}
	return st.awaitMaintenance(ctx, func(all []*v1alpha1.NodeMaintenance) bool { return len(all) == 0 })
}

func (st *stage) awaitMaintenance(ctx context.Context, done func([]*v1alpha1.NodeMaintenance) bool) error {
	_, watcher, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	maintenances := await.Source[*v1alpha1.NodeMaintenance]{Client: watcher, Resource: "nodemaintenances"}
	var last []*v1alpha1.NodeMaintenance
	err = await.Until(ctx, maintenances, func(all []*v1alpha1.NodeMaintenance) bool {
		last = all
		return done(all)
	})
	if err != nil && len(last) > 0 {
		err = errors.Join(err, fmt.Errorf("it says: %+v", last[0].Status))
	}
	if err != nil {
		return fmt.Errorf("waiting for a maintenance: %w", err)
	}
	return nil
}

// reportMaintenance prints what was measured. The runs come in pairs, of the command and of the manager.
func reportMaintenance(out io.Writer, runs []*run) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSET-UP\tDRAINED BY\tSECONDS\tOVER CLI\tEVICTED\tREFUSED\tREQUESTS\tPER POD\tLOWEST READY")
	var cli, manager, perPod float64
	for i := 0; i+1 < len(runs); i += 2 {
		command, object := runs[i], runs[i+1]
		cli, manager = cli+command.took().Seconds(), manager+object.took().Seconds()
		perPod = max(perPod, object.perPod())
		for _, r := range []*run{command, object} {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.2f\t%d\t%d\t%d\t%.2f\t%d of %d\n", r.setup.name, r.tool.name, r.took().Seconds(),
				r.took().Seconds()/command.took().Seconds(), r.requests.evicted, r.requests.refused, r.requests.all, r.perPod(), r.ready.lowest, replicas)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nmanager drain over cli drain: %.2f\nrequests per pod: %.2f\n", manager/cli, perPod)
	return nil
}
