package notice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// sources is what controller and receiver read and write by.
type sources struct {
	Options

	client client.Reader // through the cache
	live   client.Reader
}

// configuration is what notices lead to, and where it is written.
type configuration struct {
	*notice.Config

	written *corev1.ConfigMap // nil: there is none
	wrong   error             // why it is not known; Config is the default then
}

// configuration reads the configuration. Where there is none, it has no rules.
func (s *sources) configuration(ctx context.Context) (configuration, error) {
	c := configuration{Config: notice.Default(), written: &corev1.ConfigMap{}}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: notice.ConfigName}, c.written)
	if apierrors.IsNotFound(err) {
		c.written = nil
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading the configuration of notices: %w", err)
	}
	text, is := c.written.Data[notice.ConfigKey]
	if !is {
		c.wrong = fmt.Errorf("it has no entry %s", notice.ConfigKey)
		return c, nil
	}
	parsed, wrong := notice.Parse(text)
	if c.wrong = wrong; wrong == nil {
		c.Config = parsed
	}
	return c, nil
}

// facts are the nodes, from the cache, and the maintenances, by a reader.
func (s *sources) facts(ctx context.Context, reader client.Reader) ([]notice.Node, []*v1alpha1.NodeMaintenance, error) {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	var all v1alpha1.NodeMaintenanceList
	if err := reader.List(ctx, &all); err != nil {
		return nil, nil, fmt.Errorf("listing maintenances: %w", err)
	}
	facts := make([]notice.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		facts = append(facts, observe.NoticeFacts(&nodes.Items[i]))
	}
	maintenances := make([]*v1alpha1.NodeMaintenance, 0, len(all.Items))
	for i := range all.Items {
		maintenances = append(maintenances, &all.Items[i])
	}
	return facts, maintenances, nil
}

// carryOut does what was decided, and returns what is not done, by the names of the notices.
func (s *sources) carryOut(ctx context.Context, d *notice.Decision) map[string]answers.Answer {
	failed := map[string]answers.Answer{}
	note := func(name string, answer answers.Answer) {
		if answer.Code != answers.Accepted && failed[name].Code == "" {
			failed[name] = answer
		}
	}
	for _, m := range d.Create {
		note(m.Name, s.Act.Begin(ctx, m))
	}
	for _, c := range d.Change {
		note(c.To.Name, s.Act.Change(ctx, c))
	}
	for _, m := range d.Delete {
		if answer := s.Act.Withdraw(ctx, m); answer.Code != answers.Gone {
			note(m.Name, answer)
		}
	}
	for _, e := range d.Events {
		note(e.Name, s.Act.Record(ctx, e))
	}
	return failed
}
