// Templates, containers and lambdas: work for the compiler; and, run, for operator new and delete.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

template <unsigned N> struct Fibonacci {
	static constexpr std::uint64_t value = Fibonacci<N - 1>::value + Fibonacci<N - 2>::value;
};
template <> struct Fibonacci<0> { static constexpr std::uint64_t value = 0; };
template <> struct Fibonacci<1> { static constexpr std::uint64_t value = 1; };

template <std::size_t... I> constexpr auto table(std::index_sequence<I...>) {
	return std::array<std::uint64_t, sizeof...(I)>{Fibonacci<I>::value...};
}

template <typename... T> struct Row {
	std::tuple<T...> fields;
	template <std::size_t... I> std::string text(std::index_sequence<I...>) const {
		std::ostringstream out;
		((out << std::get<I>(fields) << ' '), ...);
		return out.str();
	}
	std::string text() const { return text(std::index_sequence_for<T...>{}); }
};

template <int Depth> struct Tree {
	std::unique_ptr<Tree<Depth - 1>> left, right;
	std::vector<int> payload;
	explicit Tree(int seed)
		: left(new Tree<Depth - 1>(seed * 2)), right(new Tree<Depth - 1>(seed * 2 + 1)),
		  payload(static_cast<std::size_t>(seed % 17), seed) {}
	std::size_t size() const { return left->size() + right->size() + payload.size(); }
};
template <> struct Tree<0> {
	std::string name;
	explicit Tree(int seed) : name(static_cast<std::size_t>(seed % 40), 'x') {}
	std::size_t size() const { return name.size(); }
};

struct alignas(64) Wide { double values[8]; };

using Value = std::variant<int, std::string, std::vector<double>, std::map<std::string, int>>;

std::size_t weigh(const Value &value) {
	return std::visit([](const auto &v) -> std::size_t {
		if constexpr (std::is_same_v<std::decay_t<decltype(v)>, int>)
			return static_cast<std::size_t>(v);
		else
			return v.size();
	}, value);
}

std::size_t work(unsigned seed) {
	std::unordered_map<std::string, std::vector<Value>> map;
	std::vector<std::shared_ptr<Wide>> wide;
	std::size_t sum = 0;
	for (unsigned i = 0; i < 20000; i++) {
		seed = seed * 1103515245u + 12345u;
		auto &list = map["key" + std::to_string(seed >> 8 & 511)];
		switch (seed >> 20 & 3) {
		case 0: list.emplace_back(static_cast<int>(i)); break;
		case 1: list.emplace_back(std::string(seed >> 22 & 127, 'y')); break;
		case 2: list.emplace_back(std::vector<double>(seed >> 22 & 63)); break;
		default: list.emplace_back(std::map<std::string, int>{{"a", 1}, {std::to_string(i), 2}});
		}
		if (i % 16 == 0)
			wide.push_back(std::make_shared<Wide>());
		if (reinterpret_cast<std::uintptr_t>(wide.back().get()) % 64 != 0)
			return 0;
		if (i % 5 == 0)
			map.erase("key" + std::to_string(seed >> 9 & 511));
	}
	for (const auto &[key, list] : map)
		sum += key.size() + std::accumulate(list.begin(), list.end(), std::size_t{0},
			[](std::size_t n, const Value &v) { return n + weigh(v); });
	return sum;
}

} // namespace

int main() {
	constexpr auto numbers = table(std::make_index_sequence<80>{});
	std::printf("%llu\n", static_cast<unsigned long long>(numbers[79]));
	std::printf("%s\n", Row<int, std::string, double>{{1, "two", 3.5}}.text().c_str());
	std::printf("%zu\n", Tree<12>(1).size());

	std::regex pattern("(\\w+)=(\\d+)");
	std::string text = "one=1 two=22 three=333";
	for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
		std::printf("%s:%s\n", (*i)[1].str().c_str(), (*i)[2].str().c_str());

	std::array<std::size_t, 6> sums{};
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < sums.size(); i++)
		threads.emplace_back([&sums, i] { sums[i] = work(i + 1); });
	for (auto &thread : threads)
		thread.join();
	for (auto sum : sums)
		std::printf("%zu\n", sum);

	std::set<std::optional<int>> order{3, std::nullopt, 1};
	std::function<int(int)> twice = [&](int n) { return n < 1 ? static_cast<int>(order.size()) : twice(n - 1) * 2; };
	std::printf("%d\n", twice(5));
	try {
		std::size_t huge = SIZE_MAX / 4;
		std::printf("%p\n", static_cast<void *>(new char[huge]));
	} catch (const std::bad_alloc &) {
		std::printf("no memory\n");
	}
}
