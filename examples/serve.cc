// A small "server" in C++ as inference servers are built: clients put requests into a queue, a scheduler forms batches, each step
// makes one token for each request of the batch. No network: what is shown is how such a program says what it does.
//
//      c++ -std=c++11 serve.cc -o serve -pthread $(pkg-config --cflags --libs infprof)
//      infprof record --duration 30 -- ./serve 20          then: infprof report, infprof report --html -o serve.html
//
// A request is a detached span: it begins in its client's thread, waits in the queue, is worked on by the scheduler, and ends
// there. What a thread does is a span of that thread. Names and attributes are those of OpenTelemetry for generative AI.
#include <infprof/infprof.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace
{
const char *const model = "toy-1b";
const size_t max_batch = 8;

struct request {
        infprof::detached_span span{ "chat toy-1b" };
        infprof::detached_span queued{ "queue", span.get() }; // from here to the scheduler
        int prompt_tokens = 0, wanted = 0, made = 0;
        std::mutex lock;
        std::condition_variable done;
        bool is_done = false;
};

std::mutex queue_lock;
std::condition_variable queue_filled;
std::deque<std::shared_ptr<request>> waiting;
bool closing;

infp_metric *tokens, *requests, *queue_length, *batch_size;

// Stands for a forward pass.
void compute(int units)
{
        volatile double sum = 0;

        for (int i = 0; i < units * 10000; i++)
                sum = sum + 1.0 / (1 + i);
}

void submit(const std::shared_ptr<request> &one)
{
        std::lock_guard<std::mutex> hold(queue_lock);

        waiting.push_back(one);
        infp_set(queue_length, static_cast<double>(waiting.size()));
        queue_filled.notify_one();
}

void client(unsigned number, std::chrono::steady_clock::time_point until)
{
        std::mt19937 random(number);
        std::string name = "client " + std::to_string(number);

        infp_thread_name(name.c_str());
        while (std::chrono::steady_clock::now() < until) {
                auto one = std::make_shared<request>();

                one->prompt_tokens = 16 + static_cast<int>(random() % 240);
                one->wanted = 8 + static_cast<int>(random() % 56);
                one->span.text(INFP_GEN_AI_OPERATION_NAME, "chat");
                one->span.text(INFP_GEN_AI_PROVIDER_NAME, "example");
                one->span.text(INFP_GEN_AI_REQUEST_MODEL, model);
                one->span.integer(INFP_GEN_AI_REQUEST_MAX_TOKENS, one->wanted);
                one->span.integer(INFP_GEN_AI_USAGE_INPUT_TOKENS, one->prompt_tokens);
                submit(one);
                std::unique_lock<std::mutex> hold(one->lock);
                one->done.wait(hold, [&] { return one->is_done; });
                hold.unlock();
                std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
        }
}

void finish(request &one)
{
        one.span.integer(INFP_GEN_AI_USAGE_OUTPUT_TOKENS, one.made);
        if (one.wanted > 60)
                one.span.fail("length_limit");
        else
                one.span.text(INFP_GEN_AI_RESPONSE_FINISH_REASONS, "stop");
        one.span.end();
        infp_add(requests, 1);
        std::lock_guard<std::mutex> hold(one.lock);
        one.is_done = true;
        one.done.notify_one();
}

// Takes what waits into the batch, reading its prompt.
void admit(std::vector<std::shared_ptr<request>> &batch)
{
        for (;;) {
                std::shared_ptr<request> one;
                {
                        std::unique_lock<std::mutex> hold(queue_lock);

                        if (batch.empty())
                                queue_filled.wait(hold, [] { return closing || !waiting.empty(); });
                        if (waiting.empty() || batch.size() == max_batch)
                                return;
                        one = waiting.front();
                        waiting.pop_front();
                        infp_set(queue_length, static_cast<double>(waiting.size()));
                }
                one->queued.end();
                infprof::span prefill("prefill");
                prefill.integer(INFP_GEN_AI_USAGE_INPUT_TOKENS, one->prompt_tokens);
                compute(one->prompt_tokens / 8);
                batch.push_back(std::move(one));
        }
}

void scheduler()
{
        std::vector<std::shared_ptr<request>> batch;

        infp_thread_name("scheduler");
        for (;;) {
                admit(batch);
                if (batch.empty())
                        return;
                infprof::span step("step");
                step.integer("step", static_cast<int64_t>(infp_step()));
                step.integer("batch_size", static_cast<int64_t>(batch.size()));
                infp_set(batch_size, static_cast<double>(batch.size()));
                {
                        infprof::span forward("forward");
                        compute(10 + static_cast<int>(batch.size()) * 4);
                }
                infprof::span sample("sample");
                infp_add(tokens, static_cast<double>(batch.size()));
                for (size_t i = 0; i < batch.size();) {
                        if (++batch[i]->made < batch[i]->wanted) {
                                i++;
                                continue;
                        }
                        finish(*batch[i]);
                        batch[i] = batch.back();
                        batch.pop_back();
                }
        }
}
} // namespace

int main(int argc, char **argv)
{
        double seconds = argc > 1 ? std::atof(argv[1]) : 5;
        unsigned n_clients = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 12;
        std::vector<std::thread> clients;

        tokens = infp_counter("serve.tokens", "tokens", "tokens that were generated");
        requests = infp_counter("serve.requests", "requests", "requests that were answered");
        queue_length = infp_gauge("serve.queue", "requests", "requests that wait");
        batch_size = infp_gauge("serve.batch", "requests", "requests of the newest step");

        std::thread worker(scheduler);
        auto begin = std::chrono::steady_clock::now();
        auto part = [&](double share) {
                return begin + std::chrono::milliseconds(static_cast<long>(seconds * 1000 * share));
        };

        infp_mark("light load");
        for (unsigned i = 0; i < n_clients; i++) {
                if (i == n_clients / 4) { // the rest comes later
                        std::this_thread::sleep_until(part(0.4));
                        infp_mark("heavy load");
                }
                clients.emplace_back(client, i, part(0.9));
        }
        for (auto &each : clients)
                each.join();
        infp_mark("drained");
        {
                std::lock_guard<std::mutex> hold(queue_lock);
                closing = true;
                queue_filled.notify_one();
        }
        worker.join();
        std::printf("served for %.1f s, %s\n", seconds, infp_is_recording() ? "recorded" : "not recorded");
}
