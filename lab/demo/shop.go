package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/testlab"
	"usher.sh/usher/lab/throwaway"
)

//go:embed shop.yaml
var shop []byte

const (
	zones   = 3
	pods    = 6 + 1 + 3 + 6 + 1 // web, payments, orders-db, an agent on every node, the shell
	budgets = 3
)

// stage is the lab with the programs that the demo runs.
type stage struct {
	lab      *throwaway.Lab
	programs map[string]string // path by name
}

// openShop returns the name of the pod of payments when every pod is ready and every budget knows it.
func (s stage) openShop(ctx context.Context) (payments string, err error) {
	if err := s.lab.Nodes.Create(ctx, s.lab.Client, sites()); err != nil {
		return "", err
	}
	apply := exec.CommandContext(ctx, s.programs["kubectl"], "--kubeconfig", s.lab.Kubeconfig(), "apply", "-f", "-")
	apply.Stdin = bytes.NewReader(shop)
	if output, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("opening the shop: %w: %s", err, output)
	}
	if payments, err = s.awaitReady(ctx); err != nil {
		return "", err
	}
	if err := s.openSecondNodes(ctx); err != nil {
		return "", err
	}
	return payments, s.awaitBudgets(ctx)
}

// sites are two nodes in each zone. The second ones are cordoned at first, so that the shop starts on the first ones
// and every demo drains the same pods.
func sites() []*corev1.Node {
	var list []*corev1.Node
	for _, zone := range nodes.Zones(zones) {
		letter := zone[len(zone)-1:]
		second := nodes.Object("node-"+letter+"2", zone)
		second.Spec.Unschedulable = true
		list = append(list, nodes.Object("node-"+letter+"1", zone), second)
	}
	return list
}

func (s stage) openSecondNodes(ctx context.Context) error {
	open := []byte(`{"spec":{"unschedulable":null}}`)
	for _, n := range sites() {
		if !n.Spec.Unschedulable {
			continue
		}
		_, err := s.lab.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, open, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("opening node: %w", err)
		}
	}
	return nil
}

func (s stage) awaitReady(ctx context.Context) (payments string, err error) {
	source := await.Source[*corev1.Pod]{Client: s.lab.Client.CoreV1().RESTClient(), Resource: "pods", Namespace: "shop"}
	err = await.Until(ctx, source, func(all []*corev1.Pod) bool {
		ready := 0
		for _, p := range all {
			if testlab.PodReady(p) {
				ready++
			}
			if strings.HasPrefix(p.Name, "payments-") {
				payments = p.Name
			}
		}
		return ready == pods
	})
	if err != nil {
		return "", fmt.Errorf("waiting until the shop's pods are ready: %w", err)
	}
	return payments, nil
}

func (s stage) awaitBudgets(ctx context.Context) error {
	source := await.Source[*policyv1.PodDisruptionBudget]{
		Client: s.lab.Client.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: "shop",
	}
	err := await.Until(ctx, source, func(all []*policyv1.PodDisruptionBudget) bool {
		settled := 0
		for _, b := range all {
			if b.Status.ExpectedPods > 0 && b.Status.CurrentHealthy == b.Status.ExpectedPods {
				settled++
			}
		}
		return settled == budgets
	})
	if err != nil {
		return fmt.Errorf("waiting until the shop's budgets are counted: %w", err)
	}
	return nil
}
