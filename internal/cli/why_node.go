package cli

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// aboutNodes reports whether nodes are asked about, and refuses what mixes them with pods.
func (o *whyOptions) aboutNodes() (bool, error) {
	named := slices.ContainsFunc(o.subjects, func(s subject) bool { return s.kind == nodeKind })
	switch {
	case !named:
		return false, nil
	case slices.ContainsFunc(o.subjects, func(s subject) bool { return s.kind != nodeKind }):
		return true, fmt.Errorf("ask about nodes and about pods one after the other")
	case o.dump != "" || o.replace || o.output != "text":
		return true, fmt.Errorf("of a node it is said what its fence waits for, as text and of a cluster that runs; usher plan %s shows what would keep its pods", o.subjects[0].name)
	}
	return true, nil
}

// whyNodes says what is waited for on lost nodes.
func (o *whyOptions) whyNodes(ctx context.Context) error {
	c, clock, err := fenceClient(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	waiting := false
	for _, s := range o.subjects {
		lost, err := observe.LookAtLostNode(ctx, c, s.name)
		if err != nil {
			return problem(ctx, err)
		}
		page := show.LostNode{
			Name: lost.Node.Name, Ready: lost.Node.Ready, Since: lost.Node.Since, Fence: lost.FenceOf(), Now: clock.Now(), Commands: o.commands,
		}
		if page.Fence == nil && lost.Node.Unreachable() {
			page.Policy = observe.WhatPoliciesSay(ctx, c, lost.Node.Name)
		}
		o.addMembers(ctx, c, &page)
		o.addWarnings(ctx, &page)
		if err := newVoice(o.IOStreams, o.output, o.commands).page(nil, page.Lines); err != nil {
			return err
		}
		waiting = waiting || page.Waits()
	}
	if waiting {
		return exitWith(exitBlocked)
	}
	return nil
}

// addMembers adds what is done for members on a node, and in which order they leave it.
func (o *whyOptions) addMembers(ctx context.Context, c client.Client, page *show.LostNode) {
	members, err := observe.LookAtMembers(ctx, c, "", page.Name)
	if err != nil {
		page.Unread = err.Error()
	}
	page.Steps, page.Done = o.lostSteps(members.Policies, func(ref *v1alpha1.MemberRef) bool { return ref.Node == page.Name })
	page.Orders = members.Orders
}

// addWarnings adds what the maintenances that have a node say of its pods. Without the right to read them it adds nothing.
func (o *whyOptions) addWarnings(ctx context.Context, page *show.LostNode) {
	all, err := maintenances(ctx, o.config)
	if err != nil {
		return
	}
	for i := range all {
		for _, e := range all[i].Status.Nodes {
			if e.Name == page.Name && len(e.Warnings) > 0 {
				page.Warnings = append(page.Warnings, show.NodeWarnings{Maintenance: all[i].Name, Warnings: e.Warnings})
			}
		}
	}
}

// lostSteps are what is done for the members of lost nodes that are meant, of which the second says that nothing is left to do.
func (o *whyOptions) lostSteps(policies []v1alpha1.EvictionPolicy, meant func(*v1alpha1.MemberRef) bool) (steps []drain.Blocker, done []string) {
	for i := range policies {
		for _, s := range eviction.LostSteps(&policies[i]) {
			switch {
			case !meant(&s.Member):
			case s.Done:
				done = append(done, s.Message)
			default:
				steps = append(steps, drain.Blocker{Reason: drain.Reason(s.Reason), Node: s.Member.Node, Message: s.Message, Remedy: s.Remedy, Since: s.Since})
			}
		}
	}
	return o.commands.Blockers(steps), done
}

// addLost adds what is done for a pod's member since its node is proven off. Without the right to read policies it adds nothing.
func (o *whyOptions) addLost(ctx context.Context, c client.Client, answer *show.Why) {
	pod := answer.Pod
	members, err := observe.LookAtMembers(ctx, c, pod.Namespace, "")
	if err != nil {
		return
	}
	answer.Lost, answer.LostDone = o.lostSteps(members.Policies, func(ref *v1alpha1.MemberRef) bool { return ref.PodUID == pod.UID && ref.Node == pod.Node })
}

// addFence says of a pod on a node that is not ready what the node's fence waits for, and what is done for it since. Without the right to read fences it adds
// nothing.
func (o *whyOptions) addFence(ctx context.Context, view snapshot.View, answer *show.Why) {
	node := view.Cluster.Node(answer.Pod.Node)
	if o.dump != "" || node == nil || node.Ready {
		return
	}
	c, _, err := fenceClient(o.config, o.ErrOut)
	if err != nil {
		return
	}
	lost, err := observe.LookAtLostNode(ctx, c, node.Name)
	if err != nil || lost.FenceOf() == nil {
		return
	}
	answer.Fence = show.FenceLine(lost.FenceOf())
	o.addLost(ctx, c, answer)
}
