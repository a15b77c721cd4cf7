// Franz-go as a client under test: docs/client-protocol.md.
//
//	go build -C examples/clients/go -o /tmp/franz-go-client
//	kafka-chaos run --client-cmd /tmp/franz-go-client
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var (
	background = context.Background()
	// Large, so that the end of the input is noticed while the client waits.
	asked  = make(chan request, 1<<17)
	output sync.Mutex

	config         map[string]string
	tellsPositions bool
	client         *kgo.Client
	admin          *kadm.Client
	// franz-go decides when a client is made whether it joins a group: `subscribe` makes another.
	consuming *kgo.Client
	// What is read next of the partitions that are assigned; negative as long as nobody knows.
	positions kadm.Offsets
	// Where to begin partitions of a group that franz-go has not asked the group about yet.
	sought      kadm.Offsets
	moves       = make(chan move)
	commits     = make(chan func(), 1<<10) // carried out in their order
	closing     = make(chan struct{})
	sendFailure atomic.Pointer[problem] // the first one of the transaction
)

type answer map[string]any

type request struct {
	ID                  int64
	Op, Kind, Topic     string
	Topics              []string
	Config              map[string]string
	Positions, Async    bool
	Key, Value          []byte
	Headers             []header
	Partition           json.RawMessage // a number, or a place
	Partitions, Offsets []place
	Max                 int
	TimeoutMs           int64 `json:"timeout_ms"`
}

type header kgo.RecordHeader

func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.Key, &h.Value})
}

type place struct {
	topic     string
	partition int32
	at        any // an offset, "beginning", "end", or nil: go on
}

func (p *place) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.topic, &p.partition, &p.at})
}

// A move is what the group gives or takes; the rebalance goes on when it is done.
type move struct {
	event      string
	partitions map[string][]int32
	offsets    map[string]map[int32]kgo.Offset // where the group is, before fetches begin
	done       chan struct{}
}

func main() {
	go func() {
		for lines := json.NewDecoder(os.Stdin); ; {
			var r request
			if lines.Decode(&r) != nil {
				os.Exit(0) // killed: not a word to the cluster
			}
			asked <- r
		}
	}()
	go func() {
		for commit := range commits {
			commit()
		}
	}()
	for {
		handle(<-asked)
	}
}

func handle(r request) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case problem:
			say(r.ID, answer{"error": failed})
		default:
			panic(failed)
		}
	}()
	if told := answerTo(r); told != nil {
		say(r.ID, told)
	}
}

func say(id int64, told answer) {
	told["id"] = id
	line, _ := json.Marshal(told)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func answerTo(r request) answer {
	limit := time.Duration(r.TimeoutMs) * time.Millisecond
	if r.Op != "poll" {
		limit = cmp.Or(limit, 10*time.Second)
	}
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	switch r.Op {
	case "open":
		return open(r)
	case "produce":
		produce(r)
		return nil
	case "init_transactions":
		_, _, err := client.ProducerID(ctx)
		flag(err, func(p *problem) { p.Fatal = !p.Retriable })
	case "begin_transaction":
		sendFailure.Store(nil)
		// What it can recover from it has recovered from.
		flag(client.BeginTransaction(), func(p *problem) { p.Fatal, p.Retriable = true, false })
	case "commit_transaction":
		err := client.Flush(background)
		if failure := sendFailure.Load(); failure != nil {
			err = *failure // franz-go would commit the others
		}
		if err == nil {
			err = client.EndTransaction(background, kgo.TryCommit)
		}
		// Of an unknown outcome too: it refuses a second commit, and not an abort.
		flag(err, func(p *problem) { p.Abortable, p.Retriable = !p.Fatal, false })
	case "abort_transaction":
		err := client.AbortBufferedRecords(background)
		if err == nil {
			err = client.EndTransaction(background, kgo.TryAbort)
		}
		flag(err, func(p *problem) { p.Retriable = !p.Fatal })
	case "send_offsets":
		// A transaction takes offsets only of a GroupTransactSession, which is producer and member
		// in one; EndTransaction does not end what requests beside it have begun.
		panic(problem{Name: "_NOT_IMPLEMENTED", Message: "send_offsets: a transaction of franz-go " +
			"commits no offsets of another client"})
	case "assign":
		assign(ctx, r.Partitions)
	case "subscribe":
		group := kgo.ConsumerGroup(config["group.id"])
		consuming = must(kgo.NewClient(append(options(), group, kgo.ConsumeTopics(r.Topics...),
			kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(begin),
			kgo.OnPartitionsAssigned(moved("assigned")), kgo.OnPartitionsRevoked(moved("revoked")),
			kgo.OnPartitionsLost(moved("lost")))...))
	case "seek":
		seek(ctx, placeOf(r))
	case "poll":
		return poll(ctx, r)
	case "commit":
		commit(r)
		return nil
	case "committed":
		return answer{"offsets": offsetsOf(r.Partitions, committed(ctx, r.Partitions...))}
	case "position":
		return answer{"offsets": offsetsOf(r.Partitions, positions)}
	case "ends":
		p := placeOf(r)
		return answer{"low": list(ctx, p, admin.ListStartOffsets), "high": list(ctx, p, ends())}
	case "partitions":
		topic := must(admin.ListTopics(ctx, r.Topic))[r.Topic]
		check(topic.Err)
		return answer{"partitions": topic.Partitions.Numbers()}
	case "group_metadata":
		var instance any
		if name, isStatic := config["group.instance.id"]; isStatic {
			instance = name
		}
		member, generation := consuming.GroupMetadata()
		return answer{"group": []any{config["group.id"], generation, member, instance}}
	case "close":
		close(closing) // what the group takes now is told to nobody: no poll goes on
		commits <- func() {
			if client != nil {
				ctx, cancel := context.WithTimeout(background, limit)
				defer cancel()
				client.Flush(ctx)
				consuming.CloseAllowingRebalance()
			}
			say(r.ID, answer{})
		}
		return nil
	default:
		panic(problem{Name: "_NOT_IMPLEMENTED", Message: "no op " + r.Op})
	}
	return answer{}
}

func open(r request) answer {
	config, tellsPositions = r.Config, r.Positions
	if r.Kind != "none" {
		client = must(kgo.NewClient(options()...))
		admin, consuming = kadm.NewClient(client), client
	}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return answer{"client": "franz-go", "version": strings.TrimPrefix(module.Version, "v")}
		}
	}
	return answer{"client": "franz-go", "version": "unknown"}
}

// -- Producers ------------------------------------------------------------------------------------

func produce(r request) {
	ctx, record := background, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	if len(r.Partition) > 0 {
		var number int
		check(json.Unmarshal(r.Partition, &number))
		ctx = context.WithValue(ctx, named{}, number)
	}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader(h))
	}
	client.Produce(ctx, record, func(sent *kgo.Record, err error) {
		if err != nil {
			failure := problemOf(err)
			sendFailure.CompareAndSwap(nil, &failure)
			say(r.ID, answer{"error": failure})
			return
		}
		told := answer{"partition": sent.Partition}
		// Of a repetition that it knows as such a broker may not tell the offset.
		if config["acks"] != "0" && sent.Offset >= 0 {
			told["offset"] = sent.Offset
		}
		say(r.ID, told)
	})
}

// A partitioner takes the partition that is named in a record's context (in the record itself
// franz-go writes choices that are not final), and else does as franz-go does.
type partitioner struct{ kgo.Partitioner }
type topicPartitioner struct{ kgo.TopicBackupPartitioner }
type named struct{}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic).(kgo.TopicBackupPartitioner)}
}

func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Context.Value(named{}) != nil || t.TopicBackupPartitioner.RequiresConsistency(r)
}

func (t topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if number, isNamed := r.Context.Value(named{}).(int); isNamed {
		return number
	}
	return t.TopicBackupPartitioner.PartitionByBackup(r, n, backup)
}

// -- Consumers ------------------------------------------------------------------------------------

func assign(ctx context.Context, wanted []place) {
	var kept, begun kadm.Offsets
	for _, p := range wanted {
		if offset, isAssigned := positions.Lookup(p.topic, p.partition); isAssigned && p.at == nil {
			kept.Add(offset)
		} else {
			begun.AddOffset(p.topic, p.partition, resolve(ctx, p), -1)
		}
	}
	removed := map[string][]int32{}
	positions.Each(func(o kadm.Offset) {
		if _, isKept := kept.Lookup(o.Topic, o.Partition); !isKept {
			removed[o.Topic] = append(removed[o.Topic], o.Partition)
		}
	})
	// A seek too: SetOffsets passes over partitions whose fetches have not begun.
	consuming.RemoveConsumePartitions(removed)
	consuming.AddConsumePartitions(begun.KOffsets())
	begun.Each(kept.Add)
	positions = kept
}

func seek(ctx context.Context, p place) {
	known, isAssigned := positions.Lookup(p.topic, p.partition)
	switch {
	case !isAssigned:
		panic(problem{Name: "_STATE", Message: "seek: the partition is not assigned"})
	case p.at == nil:
	case consuming == client:
		all := []place{p}
		positions.Each(func(o kadm.Offset) {
			if o.Topic != p.topic || o.Partition != p.partition {
				all = append(all, place{topic: o.Topic, partition: o.Partition})
			}
		})
		assign(ctx, all)
	case known.At < 0:
		sought.AddOffset(p.topic, p.partition, resolve(ctx, p), -1)
	default:
		offset := resolve(ctx, p)
		positions.AddOffset(p.topic, p.partition, offset, -1)
		consuming.SetOffsets(map[string]map[int32]kgo.EpochOffset{
			p.topic: {p.partition: {Epoch: -1, Offset: offset}}})
	}
}

// Resolve returns the offset of a place: where franz-go finds it itself, it does not say when.
func resolve(ctx context.Context, p place) int64 {
	if p.at == nil {
		if config["group.id"] != "" {
			if o, isKnown := committed(ctx, p).Lookup(p.topic, p.partition); isKnown && o.At >= 0 {
				return o.At
			}
		}
		p.at = map[string]any{"earliest": "beginning", "none": nil, "": "end", "latest": "end"}[config["auto.offset.reset"]]
	}
	switch at := p.at.(type) {
	case float64:
		return int64(at)
	case nil:
		panic(problem{Name: "_NO_OFFSET", Message: "the group has committed none"})
	}
	if p.at == "beginning" {
		return list(ctx, p, admin.ListStartOffsets)
	}
	return list(ctx, p, ends())
}

func moved(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		await(move{event: event, partitions: partitions, done: make(chan struct{})})
	}
}

func begin(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	await(move{offsets: offsets, done: make(chan struct{})})
	return offsets, nil
}

func await(m move) {
	select {
	case moves <- m:
		<-m.done
	case <-closing:
	}
}

func poll(ctx context.Context, r request) answer {
	consuming.AllowRebalance()
	fetched := make(chan kgo.Fetches)
	go func() { fetched <- consuming.PollRecords(ctx, r.Max) }()
	for {
		select {
		case m := <-moves:
			rebalance(r.ID, m)
		case fetches := <-fetched:
			return polled(fetches)
		}
	}
}

func rebalance(id int64, m move) {
	for topic, offsets := range m.offsets {
		for number, offset := range offsets {
			if o, isSought := sought.Lookup(topic, number); isSought {
				offsets[number] = kgo.NewOffset().At(o.At)
				sought.Delete(topic, number)
			} else if offset.EpochOffset().Offset < 0 {
				continue // franz-go looks for its beginning or end
			}
			positions.AddOffset(topic, number, offsets[number].EpochOffset().Offset, -1)
		}
	}
	told := [][]any{}
	for topic, numbers := range m.partitions {
		for _, number := range numbers {
			told = append(told, []any{topic, number})
			if m.event == "assigned" {
				positions.AddOffset(topic, number, -1, -1)
			}
		}
	}
	if len(told) > 0 {
		say(id, answer{"event": m.event, "partitions": told})
		for r := <-asked; r.Op != "resume"; r = <-asked {
			handle(r)
		}
	}
	for topic, numbers := range m.partitions {
		for _, number := range numbers {
			if m.event != "assigned" {
				positions.Delete(topic, number)
				sought.Delete(topic, number)
			}
		}
	}
	close(m.done)
}

func polled(fetches kgo.Fetches) answer {
	problems, records := []problem{}, [][]any{}
	fetches.EachError(func(topic string, number int32, err error) {
		if err != context.DeadlineExceeded { // else the poll's own
			told := problemOf(err)
			if topic != "" {
				told.Partitions = [][]any{{topic, number}}
			}
			problems = append(problems, told)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		positions.AddOffset(r.Topic, r.Partition, r.Offset+1, -1)
		if r.Attrs.IsControl() {
			return
		}
		told := []any{r.Topic, r.Partition, r.Offset, r.Key, r.Value}
		headers := [][]any{}
		for _, h := range r.Headers {
			headers = append(headers, []any{h.Key, h.Value})
		}
		if len(headers) > 0 {
			told = append(told, headers)
		}
		records = append(records, told)
	})
	told := answer{"records": records, "errors": problems}
	if tellsPositions {
		told["positions"] = known()
	}
	return told
}

func commit(r request) {
	told := answer{"committed": known()}
	if r.Offsets != nil {
		committing := [][]any{}
		for _, p := range r.Offsets {
			committing = append(committing, []any{p.topic, p.partition, resolve(background, p)})
		}
		told["committed"] = committing
	}
	var offsets kadm.Offsets
	var records []*kgo.Record
	for _, o := range told["committed"].([][]any) {
		topic, number, offset := o[0].(string), o[1].(int32), o[2].(int64)
		offsets.AddOffset(topic, number, offset, -1)
		records = append(records, &kgo.Record{Topic: topic, Partition: number, Offset: offset - 1, LeaderEpoch: -1})
	}
	commits <- func() {
		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		err := error(nil)
		if consuming == client {
			err = admin.CommitAllOffsets(ctx, config["group.id"], offsets)
		} else {
			err = consuming.CommitRecords(ctx, records...)
		}
		if err != nil {
			told["error"] = problemOf(err)
		}
		say(r.ID, told)
	}
}

// Committed asks about the partitions that are named: kadm asks about all that the group has, which
// a mock cluster does not answer.
func committed(ctx context.Context, places ...place) kadm.Offsets {
	ids, names := map[string]kadm.TopicID{}, map[kadm.TopicID]string{}
	asks := kmsg.NewPtrOffsetFetchRequest()
	asks.RequireStable = config["isolation.level"] == "read_committed"
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = config["group.id"]
	for _, p := range places {
		if _, isThere := ids[p.topic]; !isThere {
			// From version 10 on a topic goes by its id.
			details := must(admin.ListTopics(ctx, p.topic))[p.topic]
			ids[p.topic], names[details.ID] = details.ID, p.topic
			topic := kmsg.NewOffsetFetchRequestGroupTopic()
			topic.Topic, topic.TopicID = p.topic, details.ID
			group.Topics = append(group.Topics, topic)
		}
		for i := range group.Topics {
			if group.Topics[i].Topic == p.topic {
				group.Topics[i].Partitions = append(group.Topics[i].Partitions, p.partition)
			}
		}
	}
	asks.Groups = append(asks.Groups, group)
	var told kadm.Offsets
	for _, group := range must(asks.RequestWith(ctx, client)).Groups {
		check(kerr.ErrorForCode(group.ErrorCode))
		for _, topic := range group.Topics {
			name := cmp.Or(topic.Topic, names[topic.TopicID])
			for _, p := range topic.Partitions {
				check(kerr.ErrorForCode(p.ErrorCode))
				told.AddOffset(name, p.Partition, p.Offset, -1)
			}
		}
	}
	return told
}

func ends() func(context.Context, ...string) (kadm.ListedOffsets, error) {
	if config["isolation.level"] == "read_committed" {
		return admin.ListCommittedOffsets
	}
	return admin.ListEndOffsets
}

func list(ctx context.Context, p place, listing func(context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
	all, err := listing(ctx, p.topic)
	found, isListed := all.Lookup(p.topic, p.partition)
	if !isListed { // else an error is about other partitions
		check(cmp.Or(err, error(kerr.UnknownTopicOrPartition)))
	}
	check(found.Err)
	return found.Offset
}

func placeOf(r request) (p place) {
	check(json.Unmarshal(r.Partition, &p))
	return p
}

func known() [][]any {
	told := [][]any{}
	positions.Each(func(o kadm.Offset) {
		if o.At >= 0 {
			told = append(told, []any{o.Topic, o.Partition, o.At})
		}
	})
	return told
}

func offsetsOf(places []place, offsets kadm.Offsets) [][]any {
	told := [][]any{}
	for _, p := range places {
		told = append(told, []any{p.topic, p.partition, nil})
		if o, isKnown := offsets.Lookup(p.topic, p.partition); isKnown && o.At >= 0 {
			told[len(told)-1][2] = o.At
		}
	}
	return told
}

// -- Settings -------------------------------------------------------------------------------------

type setting func(text string) ([]kgo.Opt, error)

func texts[T kgo.Opt](option func(string) T) setting {
	return func(text string) ([]kgo.Opt, error) { return []kgo.Opt{option(text)}, nil }
}

func whole[N int | int32, T kgo.Opt](option func(N) T) setting {
	return func(text string) ([]kgo.Opt, error) {
		number, err := strconv.ParseInt(text, 10, 32)
		return []kgo.Opt{option(N(number))}, err
	}
}

func millis[T kgo.Opt](option func(time.Duration) T) setting {
	return whole(func(ms int) T { return option(time.Duration(ms) * time.Millisecond) })
}

func both(first, second setting) setting {
	return func(text string) ([]kgo.Opt, error) {
		a, _ := first(text)
		b, err := second(text)
		return append(a, b...), err
	}
}

func words(options map[string][]kgo.Opt) setting {
	return func(text string) ([]kgo.Opt, error) {
		if found, isKnown := options[text]; isKnown {
			return found, nil
		}
		return nil, errors.New("not among franz-go's")
	}
}

func balancers(text string) ([]kgo.Opt, error) {
	all := map[string]kgo.GroupBalancer{
		"RangeAssignor": kgo.RangeBalancer(), "RoundRobinAssignor": kgo.RoundRobinBalancer(),
		"StickyAssignor": kgo.StickyBalancer(), "CooperativeStickyAssignor": kgo.CooperativeStickyBalancer(),
	}
	var chosen []kgo.GroupBalancer
	for class := range strings.SplitSeq(text, ",") {
		balancer, isKnown := all[class[strings.LastIndex(class, ".")+1:]]
		if !isKnown {
			return nil, errors.New("not among franz-go's")
		}
		chosen = append(chosen, balancer)
	}
	return []kgo.Opt{kgo.Balancers(chosen...)}, nil
}

func ignored(string) ([]kgo.Opt, error) { return nil, nil }

type opts = []kgo.Opt

var settings = map[string]setting{
	"bootstrap.servers": func(text string) (opts, error) {
		return opts{kgo.SeedBrokers(strings.Split(text, ",")...)}, nil
	},
	"client.id":                          texts(kgo.ClientID),
	"client.rack":                        texts(kgo.Rack),
	"metadata.max.age.ms":                millis(kgo.MetadataMaxAge),
	"socket.connection.setup.timeout.ms": millis(kgo.DialTimeout),
	// An answer may take twice as long: the time that the leader has, and as much on the way.
	"request.timeout.ms": both(millis(kgo.ProduceRequestTimeout), millis(kgo.RequestTimeoutOverhead)),
	"retry.backoff.ms":   millis(kgo.MetadataMinAge), // and see options
	// Kafka's sends a record alone that is larger; franz-go refuses it.
	"batch.size":       whole(kgo.ProducerBatchMaxBytes),
	"buffer.memory":    whole(kgo.MaxBufferedBytes),
	"linger.ms":        millis(kgo.ProducerLinger),
	"retries":          whole(kgo.RecordRetries),
	"transactional.id": texts(kgo.TransactionalID),
	// An idempotent producer gives up nothing whose outcome it does not know.
	"delivery.timeout.ms":    millis(kgo.RecordDeliveryTimeout),
	"transaction.timeout.ms": millis(kgo.TransactionTimeout),
	"acks": words(map[string]opts{"0": {kgo.RequiredAcks(kgo.NoAck())}, "1": {kgo.RequiredAcks(kgo.LeaderAck())},
		"all": nil, "-1": nil}),
	"compression.type": words(map[string]opts{"none": {kgo.ProducerBatchCompression(kgo.NoCompression())},
		"gzip":   {kgo.ProducerBatchCompression(kgo.GzipCompression())},
		"snappy": {kgo.ProducerBatchCompression(kgo.SnappyCompression())},
		"lz4":    {kgo.ProducerBatchCompression(kgo.Lz4Compression())},
		"zstd":   {kgo.ProducerBatchCompression(kgo.ZstdCompression())}}),
	"isolation.level": words(map[string]opts{"read_uncommitted": nil,
		"read_committed": {kgo.FetchIsolationLevel(kgo.ReadCommitted())}}),
	"auto.offset.reset": words(map[string]opts{"earliest": {kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())},
		"latest": {kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())},
		"none":   {kgo.ConsumeResetOffset(kgo.NewOffset().AtCommitted())}}),
	"check.crcs":                words(map[string]opts{"true": nil, "false": {kgo.DisableFetchCRCValidation()}}),
	"fetch.max.wait.ms":         millis(kgo.FetchMaxWait),
	"fetch.min.bytes":           whole(kgo.FetchMinBytes),
	"fetch.max.bytes":           whole(kgo.FetchMaxBytes),
	"max.partition.fetch.bytes": whole(kgo.FetchMaxPartitionBytes),
	"group.instance.id":         texts(kgo.InstanceID),
	"session.timeout.ms":        millis(kgo.SessionTimeout),
	"heartbeat.interval.ms":     millis(kgo.HeartbeatInterval),
	// Of a rebalance only: a member that does not poll remains one.
	"max.poll.interval.ms":          millis(kgo.RebalanceTimeout),
	"partition.assignment.strategy": balancers,
	"group.protocol": words(map[string]opts{"classic": nil,
		"consumer": {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}}),
	"security.protocol": words(map[string]opts{"PLAINTEXT": nil}),
	// Read in options, or where they are needed.
	"enable.idempotence": ignored, "max.in.flight.requests.per.connection": ignored,
	"retry.backoff.max.ms": ignored, "group.id": ignored,
	// The harness says when to commit; and no promise depends on when a client connects again.
	"enable.auto.commit": ignored, "auto.commit.interval.ms": ignored,
	"reconnect.backoff.ms": ignored, "reconnect.backoff.max.ms": ignored,
}

// Options returns franz-go's options; a setting that it does not have is refused.
func options() []kgo.Opt {
	chosen := opts{
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.RecordPartitioner(partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}),
		kgo.MaxBufferedRecords(cap(asked)), // else Produce waits, and all requests behind it
		kgo.KeepControlRecords(),           // what is read next lies behind them
	}
	// For brokers that are not Kafka's: franz-go cannot read what librdkafka's mock cluster answers
	// to its newest requests.
	if versions := kversion.FromString(os.Getenv("FRANZ_GO_SPEAKS")); versions != nil {
		chosen = append(chosen, kgo.MaxVersions(versions))
	}
	for name, text := range config {
		option, isKnown := settings[name]
		if !isKnown {
			panic(problem{Name: "_INVALID_ARG", Message: name + ": not among franz-go's settings"})
		}
		found, err := option(text)
		if err != nil {
			panic(problem{Name: "_INVALID_ARG", Message: name + "=" + text + ": " + err.Error()})
		}
		chosen = append(chosen, found...)
	}
	least, _ := strconv.Atoi(cmp.Or(config["retry.backoff.ms"], "100"))
	most, _ := strconv.Atoi(cmp.Or(config["retry.backoff.max.ms"], "1000"))
	chosen = append(chosen, kgo.RetryBackoffFn(func(tries int) time.Duration {
		return time.Duration(min(least<<min(tries, 20), most)) * time.Millisecond
	}))
	acks, inFlight := cmp.Or(config["acks"], "all"), cmp.Or(config["max.in.flight.requests.per.connection"], "5")
	if isOn := acks == "all" || acks == "-1"; cmp.Or(config["enable.idempotence"], strconv.FormatBool(isOn)) == "true" {
		if inFlight != "5" {
			panic(problem{Name: "_INVALID_ARG", Message: "max.in.flight.requests.per.connection=" + inFlight +
				": with idempotence franz-go has 5"})
		}
		return chosen
	}
	requests, _ := strconv.Atoi(inFlight)
	return append(chosen, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(requests))
}

// -- Errors ---------------------------------------------------------------------------------------

type problem struct {
	Name       string  `json:"name"`
	Code       *int16  `json:"code,omitempty"`
	Message    string  `json:"message"`
	Retriable  bool    `json:"retriable"`
	Fatal      bool    `json:"fatal"`
	Abortable  bool    `json:"abortable"`
	Partitions [][]any `json:"partitions,omitempty"`
}

func (p problem) Error() string { return p.Name + ": " + p.Message }

// After these a client, or its transactional id, is of no more use.
var fatal = []*kerr.Error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState,
	kerr.OutOfOrderSequenceNumber, kerr.TransactionalIDAuthorizationFailed, kerr.FencedInstanceID,
	kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.UnsupportedVersion,
}

// What happens in the client has librdkafka's names: Kafka has none for it.
func problemOf(err error) problem {
	if told, isTold := errors.AsType[problem](err); isTold {
		return told
	}
	told := problem{Name: "_FAIL", Message: err.Error(), Fatal: errors.Is(err, kgo.ErrClientClosed)}
	_, isNetwork := errors.AsType[net.Error](err)
	if known, isKafka := errors.AsType[*kerr.Error](err); isKafka {
		told.Name, told.Code, told.Retriable = known.Message, &known.Code, known.Retriable
		told.Fatal = slices.Contains(fatal, known)
		told.Abortable = config["transactional.id"] != "" && !told.Fatal && !told.Retriable
	} else if slices.ContainsFunc([]error{context.DeadlineExceeded, kgo.ErrRecordTimeout, kgo.ErrRecordRetries},
		func(late error) bool { return errors.Is(err, late) }) {
		told.Name, told.Retriable = "_TIMED_OUT", true
	} else if isNetwork || kgo.IsRetryableBrokerErr(err) {
		told.Name, told.Retriable = "_TRANSPORT", true
	}
	return told
}

// Flag fails with an error for which the call decides what may be done next.
func flag(err error, set func(*problem)) {
	if err != nil {
		told := problemOf(err)
		told.Abortable = false
		set(&told)
		panic(told)
	}
}

func check(err error) {
	if err != nil {
		panic(problemOf(err))
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
