package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system/all"
	"usher.sh/usher/internal/text"
)

// setLook is what a plan for a set has read.
type setLook struct {
	observe.MemberSets

	prospect memberset.Prospect
	isThere  bool
	unknown  []string
}

// runSet prints what applying the set would do.
func (o *planOptions) runSet(ctx context.Context) error {
	l, err := o.lookAtSet(ctx)
	if err != nil {
		return problem(ctx, err)
	}
	page := show.SetPlan{Forecast: memberset.Plan(l.prospect), Namespace: l.Namespace, Name: l.Name, IsThere: l.isThere, Commands: o.typed.others}
	page.Unknown = append(l.unknown, page.Unknown...)
	if len(o.file.beside) > 0 {
		page.Notes = append(page.Notes, "what else the file has is not looked at: "+text.List(o.file.beside, 3))
	}
	if err := newVoice(o.IOStreams, o.output, o.typed.others).page(page.JSON, page.Lines); err != nil {
		return err
	}
	if page.Blocked() {
		return exitWith(exitBlocked)
	}
	return nil
}

// lookAtSet reads all that a plan for a set rests on, with the caller's rights.
func (o *planOptions) lookAtSet(ctx context.Context) (*setLook, error) {
	conn, objects, err := o.clients()
	if err != nil {
		return nil, err
	}
	namespace, err := o.setNamespace()
	if err != nil {
		return nil, err
	}
	l := &setLook{MemberSets: observe.MemberSets{Objects: objects, Client: conn.client, Namespace: namespace, Name: o.file.set.GetName()}}
	unstructured.RemoveNestedField(o.file.set.Object, "status")
	set, err := l.applied(ctx, o.file.set)
	if err != nil {
		return nil, err
	}
	kind, known := all.Kind(&set.Spec.System)
	if !known || kind.Set == nil {
		return nil, fmt.Errorf("spec.system of MemberSet %s names no system whose members can be run: etcd, foundationdb or kubernetes", l.Name)
	}
	l.prospect.Input = memberset.Input{Set: set, Kind: *kind.Set}
	if err := l.roles(); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context) error{l.pods, l.claims, l.services, l.file, l.requests, l.nodes, l.policy} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	l.quotas(ctx)
	l.prospect.Now = conn.clock.Now()
	return l, nil
}

// roles blocks where the set's policy would be wrong: it names a role that is not known, say.
func (l *setLook) roles() error {
	roles, err := all.Roles()
	if err != nil {
		return err
	}
	problems := policycache.New(nil, all.Kind, roles).Check(&memberset.PolicyOf(l.prospect.Set, &l.prospect.Kind).Spec)
	for i := range problems {
		l.prospect.Unread = append(l.prospect.Unread, memberset.PolicyWrong(problems[i].Path, problems[i].Message))
	}
	return nil
}

// clients are those for Kubernetes' own kinds, and for Usher's.
func (o *planOptions) clients() (*connection, dynamic.Interface, error) {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return nil, nil, err
	}
	config, err := restConfig(o.config)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources speak JSON
	awaitFirstAnswer(config, conn.clock, o.ErrOut)
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return conn, objects, nil
}

// setNamespace is that of the file, or else the one that is named or current.
func (o *planOptions) setNamespace() (string, error) {
	namespace, named, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	own := o.file.set.GetNamespace()
	switch {
	case own == "":
		o.file.set.SetNamespace(namespace)
		return namespace, nil
	case named && o.config.Namespace != nil && *o.config.Namespace != "" && *o.config.Namespace != own:
		return "", fmt.Errorf("the MemberSet of the file is of namespace %s, and -n names %s: leave -n away", text.Line(own), text.Line(*o.config.Namespace))
	}
	return own, nil
}

func (l *setLook) refused(what string, err error) error {
	return observe.RefusedInstalled(l.Namespace, "reading the "+what+" of namespace "+l.Namespace, err, viewRole)
}

func (l *setLook) pods(ctx context.Context) error {
	pods, err := l.Pods(ctx)
	if err != nil {
		return l.refused("pods", err)
	}
	set := l.prospect.Set
	for i := range pods {
		p := memberset.PodOf(set, &pods[i])
		for j := range set.Status.Members {
			if m := &set.Status.Members[j]; m.ID == p.Name && m.Node == p.Node {
				p.Zone = m.Zone
			}
		}
		pinned := p.OnEviction == v1alpha1.PodIsReplacedWhereCordoned
		p.Pinned = &pinned
		l.prospect.Pods = append(l.prospect.Pods, p)
	}
	return nil
}

// claims are read without their volumes: what becomes of these is no part of a plan.
func (l *setLook) claims(ctx context.Context) error {
	claims, err := l.Claims(ctx)
	if err != nil {
		return l.refused("claims", err)
	}
	l.prospect.Storage = map[string]*corev1.PersistentVolumeClaimSpec{}
	for i := range claims {
		c := memberset.ClaimOf(l.prospect.Set, &claims[i])
		c.Volume = ""
		l.prospect.Claims = append(l.prospect.Claims, c)
		l.prospect.Storage[c.Name] = &claims[i].Spec
	}
	return nil
}

func (l *setLook) services(ctx context.Context) error {
	if l.prospect.Kind.Ports == nil {
		return nil
	}
	services, err := l.Services(ctx)
	if err != nil {
		return l.refused("Services", err)
	}
	for i := range services {
		l.prospect.Services = append(l.prospect.Services, memberset.ServiceOf(l.prospect.Set, &services[i]))
	}
	return nil
}

// file is the ConfigMap by which the system is found, where its kind has one.
func (l *setLook) file(ctx context.Context) error {
	kind := l.prospect.Kind.File
	if kind == nil {
		return nil
	}
	name := kind.Key(&l.prospect.Set.Spec.System).Name
	switch found, err := l.File(ctx, name); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return observe.RefusedInstalled(l.Namespace, "reading ConfigMap "+name+" of namespace "+l.Namespace, err, viewRole)
	default:
		l.prospect.File = memberset.FileOf(l.prospect.Set, kind, found)
	}
	return nil
}

func (l *setLook) requests(ctx context.Context) error {
	requests, err := observe.Replacements{Client: l.Objects, Namespace: l.Namespace}.List(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return l.refused("ReplacementRequests", err)
	}
	for _, q := range requests {
		if q.Spec.Source.Name == l.Name {
			l.prospect.Requests = append(l.prospect.Requests, memberset.RequestOf(q, replacement.ProgressOf(&q.Status).Phase == replacement.Removing))
		}
	}
	return nil
}

func (l *setLook) nodes(ctx context.Context) error {
	l.prospect.Nodes = map[string][]string{}
	for i := range l.prospect.Set.Spec.Groups {
		g := &l.prospect.Set.Spec.Groups[i]
		if g.PerNode == nil {
			continue
		}
		names, err := observe.NodesWith(ctx, l.Client, g.PerNode.NodeSelector)
		if err != nil {
			return observe.Refused("reading the nodes, on each of which group "+g.Name+" has a member", err, "node-reader", "--verb=list --resource=nodes")
		}
		l.prospect.Nodes[g.Name] = names
	}
	return nil
}

func (l *setLook) policy(ctx context.Context) error {
	policies, err := observe.ReadPolicies(ctx, l.Client, l.Namespace)
	if err != nil {
		return l.refused("policies", err)
	}
	for i := range policies {
		if p := &policies[i]; p.Name == l.Name {
			l.prospect.Policy = &memberset.Policy{
				UID: p.UID, Version: p.ResourceVersion, Ours: memberset.ObjectOf(l.prospect.Set, p).Ours, Deleted: p.DeletionTimestamp != nil, Spec: p.Spec,
			}
		}
	}
	return nil
}

// quotas are no part of what a set does: where they cannot be read, that is said.
func (l *setLook) quotas(ctx context.Context) {
	quotas, err := l.Quotas(ctx)
	if err != nil {
		l.unknown = append(l.unknown, "that the namespace's ResourceQuotas have room: "+text.Line(l.refused("ResourceQuotas", err).Error()))
	}
	l.prospect.Quotas = quotas
}
