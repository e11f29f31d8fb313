package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
	"usher.sh/usher/internal/text"
)

const replaceLong = `Have a member replaced whose node will not come back: its claims and its pod are
removed, and its StatefulSet makes it anew on another node, with an empty volume.
Where its policy says so, an operator is asked to replace it instead (docs/operators.md),
or only its pod is deleted.
A ReplacementRequest is made, which the manager carries out once the rules for the
replacement of its role pass, and nothing of the member can still run. This command
follows it; Ctrl-C ends the following only.

The member is named by its pod, or by its id (spec.members[].id of its policy). Its
policy must say how a successor comes about (spec.members[].provider).

The volumes of its claims are kept unless the policy says volumeClaims: Delete.

With --abandon-data a person gives up what only this member has: it says which of the
role's rules do not pass, what that means, and what is waited for all the same, and
asks. The rules that were shown then hold the replacement no longer, of this member and
this request alone. That nothing of the member may still run, limits of how many are
replaced, rules marked never and what the system itself refuses are not given up.

The caller must be allowed to create replacementrequests.usher.sh (and to patch them,
to give data up), and to delete pods and persistentvolumeclaims in the namespace;
usher install --replacement gives the manager its rights.

Exit codes: 0 the member is replaced, or the request was made (--wait=false),
1 wrong usage or no access, 2 it cannot be replaced as things are, 3 the timeout
passed, 130 interrupted. With 2, 3 and 130 the request stands, if it was made by then.`

// replaceOptions is what `usher replace` was asked for.
type replaceOptions struct {
	genericiooptions.IOStreams

	config    *genericclioptions.ConfigFlags
	commands  show.Commands
	policy    string
	role      string
	requester string
	abandon   bool
	confirm   bool
	wait      bool
	timeout   time.Duration
	limit     limit // of the timeout, from the beginning
	dryRun    string

	namespace, member string
}

func newReplaceCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &replaceOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "replace POD | MEMBER",
		Short: "Replace a member that is lost by a successor",
		Long:  replaceLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.policy, "policy", "", "The EvictionPolicy that the member is of; default: the one that claims its pod, or the only one.")
	fs.StringVar(&o.role, "role", "", "The member's role; default: the one that its pod has, or the only one of the policy.")
	fs.StringVar(&o.requester, "requester", "", "For whom, with a domain: person.usher.sh/anna. Default: person.usher.sh/ and your user name.")
	fs.BoolVar(&o.abandon, "abandon-data", false, "Give up the rules that say that others do not have its data: show them, and ask.")
	fs.BoolVar(&o.confirm, "confirm", false, "With --abandon-data: give up what is shown without being asked.")
	fs.BoolVar(&o.wait, "wait", true, "Follow it until the successor does its work.")
	fs.DurationVar(&o.timeout, "timeout", 0, "How long the command may take, from its start. 0: as long as it takes.")
	addDryRun(fs, &o.dryRun, `"client": print the ReplacementRequest. "server": let the server check it. "none": create it.`)
	return cmd
}

// Complete reads the arguments.
func (o *replaceOptions) Complete(args []string) error {
	if len(args) != 1 {
		return errors.New("name one member: usher replace POD [-n NAMESPACE]")
	}
	o.member = args[0]
	if kind, name, typed := strings.Cut(args[0], "/"); typed && slices.Contains([]string{"pod", "pods", "po"}, kind) {
		o.member = name
	}
	if o.member == "" {
		return errors.New("name one member: usher replace POD [-n NAMESPACE]")
	}
	var err error
	if o.dryRun, err = dryRunOf(o.ErrOut, o.dryRun); err != nil {
		return err
	}
	o.namespace, err = namespaceOf(o.config, "")
	return err
}

// Validate says what is wrong with the flags.
func (o *replaceOptions) Validate() error {
	var errs []error
	if o.timeout < 0 {
		errs = append(errs, errors.New("--timeout is negative: give 0 for as long as it takes"))
	}
	if o.confirm && !o.abandon {
		errs = append(errs, errors.New("--confirm says that data is given up: it goes with --abandon-data"))
	}
	if o.requester != "" && !requesterPattern.MatchString(o.requester) {
		errs = append(errs, fmt.Errorf("--requester %q: give a domain and a name: person.usher.sh/anna", o.requester))
	}
	return errors.Join(errs...)
}

// Run makes a request and follows it. The timeout counts from here.
func (o *replaceOptions) Run(ctx context.Context) error {
	o.limit = limitOf(o.timeout)
	return o.limit.run(ctx, o.ErrOut, o.timeout, o.run)
}

// run does so. What precedes the following ends with the context before, and with an error then.
func (o *replaceOptions) run(ctx, before context.Context) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	objects, err := o.objects(conn)
	if err != nil {
		return err
	}
	member, policy, err := o.resolve(before, conn, objects)
	if err != nil {
		return problem(ctx, err)
	}
	q := o.request(member, policy)
	if o.dryRun == dryRunClient && !o.abandon {
		return o.print(q)
	}
	there, err := o.there(before, objects, q)
	switch {
	case err != nil:
		return err
	case there != nil:
		o.sayThere(there)
		q = there
	case o.dryRun != dryRunNone:
		return o.tryOut(before, objects, q)
	default:
		if q, err = o.create(before, objects, q); err != nil {
			return err
		}
	}
	if o.abandon {
		if err := o.abandonData(ctx, conn, objects, q); err != nil {
			return err
		}
	}
	if o.dryRun != dryRunNone || !o.wait {
		return nil
	}
	return o.follow(ctx, objects, q)
}

// tryOut prints the request, or has the server check it. What it would be blocked by is known once it stands.
func (o *replaceOptions) tryOut(ctx context.Context, objects dynamic.Interface, q *v1alpha1.ReplacementRequest) error {
	if o.abandon {
		fmt.Fprintln(o.ErrOut, "what there is to be given up is known once the request stands: create it without --dry-run; nothing is given up before you confirm it")
	}
	if o.dryRun == dryRunClient {
		return o.print(q)
	}
	_, err := o.create(ctx, objects, q)
	return err
}

// objects is the client of requests.
func (o *replaceOptions) objects(conn *connection) (dynamic.Interface, error) {
	config, err := restConfig(o.config)
	if err != nil {
		return nil, err
	}
	config.WarningHandlerWithContext = &warnings{out: o.ErrOut}
	awaitFirstAnswer(config, conn.clock, o.ErrOut)
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return objects, nil
}

// resolve finds the member that is meant, and its policy.
func (o *replaceOptions) resolve(ctx context.Context, conn *connection, objects dynamic.Interface) (v1alpha1.ReplacementMember, string, error) {
	policies, err := observe.ReadPolicies(ctx, conn.client, o.namespace)
	if err != nil {
		return v1alpha1.ReplacementMember{}, "", observe.RefusedInstalled(o.namespace, "reading the policies of namespace "+o.namespace, err, viewRole)
	}
	policies = slices.DeleteFunc(policies, func(p v1alpha1.EvictionPolicy) bool { return o.policy != "" && p.Name != o.policy })
	if len(policies) == 0 {
		if _, err := o.ofSets(o.sets(ctx, objects)); err != nil {
			return v1alpha1.ReplacementMember{}, "", err
		}
		return v1alpha1.ReplacementMember{}, "", o.noPolicy()
	}
	pods, err := observe.PodsNamed(ctx, conn.client, snapshot.Key{Namespace: o.namespace, Name: o.member})
	if err != nil {
		return v1alpha1.ReplacementMember{}, "", observe.RefusedInstalled(o.namespace, "reading the pods of namespace "+o.namespace, err, viewRole)
	}
	found, err := claims(policies, pods, o.member)
	if err != nil {
		return v1alpha1.ReplacementMember{}, "", err
	}
	found = slices.DeleteFunc(found, func(c memberClaim) bool { return o.role != "" && c.member.Role != o.role })
	named := len(pods) == 1 && pods[0].Name == o.member
	if len(found) == 0 && !named {
		found = o.requested(ctx, objects)
	}
	if len(found) == 0 {
		if found, err = o.ofSets(o.sets(ctx, objects)); err != nil {
			return v1alpha1.ReplacementMember{}, "", err
		}
	}
	return o.choose(found, pods, policies, named)
}

// choose is the one claim that was found. Named: a pod has the member's name.
func (o *replaceOptions) choose(found []memberClaim, pods []*corev1.Pod, policies []v1alpha1.EvictionPolicy, named bool) (v1alpha1.ReplacementMember, string, error) {
	switch len(found) {
	case 0:
		if named {
			return v1alpha1.ReplacementMember{}, "", fmt.Errorf("pod %s is no member of an EvictionPolicy that is meant (--policy, --role): usher why pod/%[1]s -n %s shows which governs it", o.member, o.namespace)
		}
		return o.absent(policies)
	case 1:
		if !found[0].operated {
			o.warnReady(pods)
		}
		return found[0].member, found[0].policy, nil
	}
	return v1alpha1.ReplacementMember{}, "", fmt.Errorf("%q is several members: of role %s in policy %s, and of role %s in policy %s; say which with --policy and --role",
		o.member, found[0].member.Role, found[0].policy, found[1].member.Role, found[1].policy)
}

// The roles of Kubernetes that have what the command needs in a namespace, with what usher install adds to them: to find the member, and to have it
// replaced.
const (
	viewRole = "view"
	editRole = "edit"
)

// mayNotRemove knows by its words that Usher's admission refuses a request for what it has the manager delete.
var mayNotRemove = regexp.MustCompile(`denied the request: (.+) may not delete (pods|persistentvolumeclaims) in namespace`)

// writeRefused says which role a user lacks.
func (o *replaceOptions) writeRefused(doing string, err error) error {
	if found := mayNotRemove.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("%w; %s", observe.Explained(doing, err), observe.BindTo(o.namespace, editRole, found[1]))
	}
	return observe.RefusedInstalled(o.namespace, doing, err, editRole)
}

func (o *replaceOptions) noPolicy() error {
	if o.policy != "" {
		return fmt.Errorf("there is no EvictionPolicy %s in namespace %s: kubectl get evictionpolicies -n %[2]s lists them", o.policy, o.namespace)
	}
	return fmt.Errorf("namespace %s has no EvictionPolicy, which says how a member is replaced (docs/replacement.md), or is not there, or Usher is not installed; another namespace is named with -n", o.namespace)
}

// warnReady warns of a member that is not lost, and is not on its way out: the request stands, and replaces it once it is.
func (o *replaceOptions) warnReady(pods []*corev1.Pod) {
	if len(pods) != 1 || pods[0].Name != o.member || pods[0].DeletionTimestamp != nil {
		return
	}
	if slices.ContainsFunc(pods[0].Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		fmt.Fprintf(o.ErrOut, "warning: pod %s is Ready: only what is lost is replaced, and the request stands until it is; usher evict moves a pod\n", o.member)
	}
}

// memberClaim is a member that a policy makes of a pod.
type memberClaim struct {
	member   v1alpha1.ReplacementMember
	policy   string
	operated bool // an operator replaces it, whether it is lost or not
}

// claims returns the members that have the name: as that of their pod, or as their id.
func claims(policies []v1alpha1.EvictionPolicy, pods []*corev1.Pod, name string) ([]memberClaim, error) {
	roles, err := all.Roles()
	if err != nil {
		return nil, err
	}
	compiled := policycache.New(nil, all.Kind, roles)
	var found []memberClaim
	for _, pod := range pods {
		facts := policycache.Facts(pod)
		for i := range policies {
			claim, claims := compiled.Compiled(&policies[i]).Claim(facts)
			if !claims || claim.Role == nil || pod.Name != name && claim.Member != name {
				continue
			}
			if claim.Member == "" {
				return nil, fmt.Errorf("pod %s is a member of policy %s, and its id is not known: %s", pod.Name, policies[i].Name, claim.Error)
			}
			provider := policies[i].Spec.Members[claim.Entry].Provider
			found = append(found, memberClaim{
				member: v1alpha1.ReplacementMember{Role: claim.Role.Name, ID: claim.Member}, policy: policies[i].Name, operated: provider != nil && (provider.Patch != nil || provider.MemberSet != nil),
			})
		}
	}
	return found, nil
}

// requested returns the members that have no pod while they are replaced: those that requests which stand are for, by their ids or the names that their
// pods had. Where requests cannot be read there are none.
func (o *replaceOptions) requested(ctx context.Context, objects dynamic.Interface) []memberClaim {
	requests, err := observe.Replacements{Client: objects, Namespace: o.namespace}.List(ctx)
	if err != nil {
		return nil
	}
	var found []memberClaim
	for _, q := range requests {
		claim := memberClaim{member: q.Spec.Member, policy: q.Spec.Source.Name}
		switch named := q.Spec.Member.ID == o.member || q.Status.PodName == o.member; {
		case !named, q.Status.Over(), o.policy != "" && claim.policy != o.policy, o.role != "" && claim.member.Role != o.role:
		case !slices.Contains(found, claim):
			found = append(found, claim)
		}
	}
	return found
}

// absent is a member that has no pod: its policy and its role are named, or are the only ones there are.
func (o *replaceOptions) absent(policies []v1alpha1.EvictionPolicy) (v1alpha1.ReplacementMember, string, error) {
	var roles []string
	for _, entry := range policies[0].Spec.Members {
		if !slices.Contains(roles, entry.Role) {
			roles = append(roles, entry.Role)
		}
	}
	switch {
	case o.policy == "": // it may be a slip: what has no pod is meant with its policy
		return v1alpha1.ReplacementMember{}, "", fmt.Errorf("no pod of namespace %s is called %q, or is that member (kubectl get pods -n %[1]s); where its pod is gone, name its policy with --policy", o.namespace, o.member)
	case o.role != "" && !slices.Contains(roles, o.role):
		return v1alpha1.ReplacementMember{}, "", fmt.Errorf("policy %s has no members of role %s, only of %s", policies[0].Name, o.role, strings.Join(roles, ", "))
	case o.role == "" && len(roles) > 1:
		return v1alpha1.ReplacementMember{}, "", fmt.Errorf("no pod of namespace %s is member %q; say with --role which of its policy's roles it has: %s", o.namespace, o.member, strings.Join(roles, ", "))
	}
	return v1alpha1.ReplacementMember{Role: cmp.Or(o.role, roles[0]), ID: o.member}, policies[0].Name, nil
}

// request is the object that is asked for.
func (o *replaceOptions) request(member v1alpha1.ReplacementMember, policy string) *v1alpha1.ReplacementRequest {
	return &v1alpha1.ReplacementRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ReplacementRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, GenerateName: nameOf(member.ID, policy) + "-"},
		Spec: v1alpha1.ReplacementRequestSpec{
			Requester: cmp.Or(o.requester, personOf(userName())), Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: policy}, Member: member,
		},
	}
}

// print prints the object, for those who keep it elsewhere.
func (o *replaceOptions) print(q *v1alpha1.ReplacementRequest) error {
	out := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace    string `json:"namespace"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
		Spec v1alpha1.ReplacementRequestSpec `json:"spec"`
	}{TypeMeta: q.TypeMeta, Spec: q.Spec}
	out.Metadata.Namespace, out.Metadata.GenerateName = q.Namespace, q.GenerateName
	text, err := yaml.Marshal(out)
	if err != nil {
		return fmt.Errorf("writing the ReplacementRequest: %w", err)
	}
	_, err = o.Out.Write(text)
	return err
}

// there returns the request that there is for the member, and that is not over; nil: none.
func (o *replaceOptions) there(ctx context.Context, objects dynamic.Interface, q *v1alpha1.ReplacementRequest) (*v1alpha1.ReplacementRequest, error) {
	requests, err := observe.Replacements{Client: objects, Namespace: o.namespace}.List(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster has no ReplacementRequests: %s brings them (%w)", o.commands.In("usher install --replacement"), err)
	case err != nil:
		return nil, observe.RefusedInstalled(o.namespace, "listing the ReplacementRequests of namespace "+o.namespace, err, viewRole)
	}
	for _, there := range requests {
		if there.Spec.Member == q.Spec.Member && there.Spec.Source == q.Spec.Source && !there.Status.Over() {
			return there, nil
		}
	}
	return nil, nil
}

// sayThere says that there is a request for the member. One that is being deleted is gone on with, or goes in a moment.
func (o *replaceOptions) sayThere(q *v1alpha1.ReplacementRequest) {
	words := "is there already"
	if q.DeletionTimestamp != nil {
		words += ", and is being deleted"
	}
	if o.wait && o.dryRun == dryRunNone {
		words += "; it is followed"
	}
	fmt.Fprintf(o.Out, "ReplacementRequest %s of %s %s\n", q.Name, q.Spec.Requester, words)
}

// create makes the request.
func (o *replaceOptions) create(ctx context.Context, objects dynamic.Interface, q *v1alpha1.ReplacementRequest) (*v1alpha1.ReplacementRequest, error) {
	created, err := act.CreateReplacement(ctx, objects, q, o.dryRun == dryRunServer)
	switch {
	case err != nil:
		return nil, o.writeRefused("creating a ReplacementRequest", err)
	case o.dryRun == dryRunServer:
		fmt.Fprintf(o.Out, "a ReplacementRequest for member %s of role %s would be created (server dry run)\n", text.Line(q.Spec.Member.ID), q.Spec.Member.Role)
	default:
		fmt.Fprintf(o.Out, "ReplacementRequest %s was created for member %s of role %s\n", created.Name, text.Line(q.Spec.Member.ID), q.Spec.Member.Role)
	}
	return created, nil
}

// nameOf is the id where an object can be called so, and else the policy's name.
func nameOf(id, policy string) string {
	const longest = 200
	if len(id) <= longest && len(validation.IsDNS1123Subdomain(id)) == 0 {
		return id
	}
	return policy[:min(len(policy), longest)]
}
