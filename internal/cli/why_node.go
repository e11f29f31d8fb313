package cli

import (
	"context"
	"fmt"
	"slices"

	"usher.sh/usher/internal/cli/show"
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
		page := show.LostNode{Name: lost.Node.Name, Ready: lost.Node.Ready, Since: lost.Node.Since, Fence: lost.FenceOf(), Now: clock.Now()}
		if page.Fence == nil && lost.Node.Unreachable() {
			page.Policy = observe.WhatPoliciesSay(ctx, c, lost.Node.Name)
		}
		for _, line := range page.Lines() {
			fmt.Fprintln(o.Out, o.commands.In(line))
		}
		waiting = waiting || page.Waits()
	}
	if waiting {
		return exitWith(exitBlocked)
	}
	return nil
}

// addFence says of a pod on a node that is not ready what the node's fence waits for. Without the right to read fences it adds nothing.
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
}
